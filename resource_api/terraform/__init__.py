"""Providers of Terraform as types: their programs, protocols 5 and 6, are called over gRPC without generated code."""

from typing import TYPE_CHECKING

from resource_api.model.values.start_up import late_modules

if not TYPE_CHECKING:  # a manifest of providers by path does not pay for versions
    __getattr__ = late_modules(__name__, "packages")
