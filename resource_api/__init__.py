"""Describe and change machines and services: two methods, the whole lifecycle.

The names below are the authoring and embedding API. They are loaded when first used, so that importing this
package configures no logging, installs no signal handler, and imports neither click nor sh.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from resource_api.manifest.python_api import ComponentApi, DeclaredResource, ManifestApi, PendingValue
    from resource_api.model.action import Action
    from resource_api.model.attribute import Attribute
    from resource_api.model.change import Change, Difference, SideEffect
    from resource_api.model.provider_functions import Planned
    from resource_api.model.report import (
        Diagnosed,
        Drifted,
        Event,
        Finished,
        Outputs,
        PlannedChange,
        StepEnd,
        StepReport,
        StepStart,
        Summary,
    )
    from resource_api.model.step import PolicyPlan, PolicyResource, PolicyStep, Step
    from resource_api.model.type_definition import ComponentDefinition, Function, Resource, TypeDefinition
    from resource_api.model.values.assets import Archive, Asset
    from resource_api.model.values.errors import (
        CannotList,
        CommandError,
        DefinitionError,
        ManifestError,
        Problem,
        ProviderError,
        ResourceAPIError,
        ResourceError,
        StateError,
        StateLocked,
        UsageError,
    )
    from resource_api.model.values.values import UNKNOWN, Sensitive
    from resource_api.model.values.version import __version__ as __version__
    from resource_api.plugins.registry import Registry
    from resource_api.provider.base import BaseProvider, SimpleProvider
    from resource_api.provider.command import Command, CommandResult
    from resource_api.provider.computation import compute
    from resource_api.provider.context import Context
    from resource_api.runtime.planning import Plan
    from resource_api.runtime.recording import Report
    from resource_api.runtime.runtime import Runtime
    from resource_api.system.filesystem.account_files import change_accounts
    from resource_api.system.filesystem.backups import BackupStore, backup_directory
    from resource_api.system.log import Log

__all__ = [
    "UNKNOWN",
    "Action",
    "Archive",
    "Asset",
    "Attribute",
    "BackupStore",
    "BaseProvider",
    "CannotList",
    "Change",
    "Command",
    "CommandError",
    "CommandResult",
    "ComponentApi",
    "ComponentDefinition",
    "Context",
    "DeclaredResource",
    "DefinitionError",
    "Diagnosed",
    "Difference",
    "Drifted",
    "Event",
    "Finished",
    "Function",
    "Log",
    "ManifestApi",
    "ManifestError",
    "Outputs",
    "PendingValue",
    "Plan",
    "Planned",
    "PlannedChange",
    "PolicyPlan",
    "PolicyResource",
    "PolicyStep",
    "Problem",
    "ProviderError",
    "Registry",
    "Report",
    "Resource",
    "ResourceAPIError",
    "ResourceError",
    "Runtime",
    "Sensitive",
    "SideEffect",
    "SimpleProvider",
    "StateError",
    "StateLocked",
    "Step",
    "StepEnd",
    "StepReport",
    "StepStart",
    "Summary",
    "TypeDefinition",
    "UsageError",
    "backup_directory",
    "change_accounts",
    "compute",
]

_HOMES = {
    "resource_api.manifest.python_api": ("ComponentApi", "DeclaredResource", "ManifestApi", "PendingValue"),
    "resource_api.provider.base": ("BaseProvider", "SimpleProvider"),
    "resource_api.plugins.registry": ("Registry",),
    "resource_api.runtime.planning": ("Plan",),
    "resource_api.runtime.recording": ("Report",),
    "resource_api.runtime.runtime": ("Runtime",),
    "resource_api.provider.command": ("Command", "CommandResult"),
    "resource_api.provider.context": ("Context",),
    "resource_api.provider.computation": ("compute",),
    "resource_api.model.values.assets": ("Archive", "Asset"),
    "resource_api.model.action": ("Action",),
    "resource_api.model.attribute": ("Attribute",),
    "resource_api.model.change": ("Change", "Difference", "SideEffect"),
    "resource_api.model.report": (
        *("Diagnosed", "Drifted", "Event", "Finished", "Outputs", "PlannedChange", "StepEnd", "StepReport"),
        *("StepStart", "Summary"),
    ),
    "resource_api.model.type_definition": ("ComponentDefinition", "Function", "Resource", "TypeDefinition"),
    "resource_api.model.values.errors": (
        *("CannotList", "CommandError", "DefinitionError", "ManifestError", "Problem", "ProviderError"),
        *("ResourceAPIError", "ResourceError", "StateError", "StateLocked", "UsageError"),
    ),
    "resource_api.system.filesystem.account_files": ("change_accounts",),
    "resource_api.system.filesystem.backups": ("BackupStore", "backup_directory"),
    "resource_api.system.log": ("Log",),
    "resource_api.model.step": ("PolicyPlan", "PolicyResource", "PolicyStep", "Step"),
    "resource_api.model.provider_functions": ("Planned",),
    "resource_api.model.values.values": ("UNKNOWN", "Sensitive"),
    "resource_api.model.values.version": ("__version__",),
}


if not TYPE_CHECKING:  # A type checker would accept every name.

    def __getattr__(name: str) -> Any:
        """Load a public name from its module when it is first used."""
        from importlib import import_module

        for home, names in _HOMES.items():
            if name in names:
                value = globals()[name] = getattr(import_module(home), name)
                return value
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
