"""Providers of Terraform as types: their programs, protocols 5 and 6, are called over gRPC without generated code."""
