"""Describe and change machines and services: two methods, the whole lifecycle.

The names below are the authoring and embedding API. They are loaded when first used, so that importing this
package configures no logging, installs no signal handler, and imports neither click nor sh.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from resource_api.manifest.python_manifest import ComponentApi as ComponentApi
    from resource_api.manifest.python_manifest import DeclaredResource as DeclaredResource
    from resource_api.manifest.python_manifest import ManifestApi as ManifestApi
    from resource_api.manifest.python_manifest import PendingValue as PendingValue
    from resource_api.model.action import Action as Action
    from resource_api.model.attribute import Attribute as Attribute
    from resource_api.model.change import Change as Change
    from resource_api.model.change import Difference as Difference
    from resource_api.model.change import SideEffect as SideEffect
    from resource_api.model.provider_functions import Planned as Planned
    from resource_api.model.report import Diagnosed as Diagnosed
    from resource_api.model.report import Drifted as Drifted
    from resource_api.model.report import Event as Event
    from resource_api.model.report import Finished as Finished
    from resource_api.model.report import Outputs as Outputs
    from resource_api.model.report import PlannedChange as PlannedChange
    from resource_api.model.report import StepEnd as StepEnd
    from resource_api.model.report import StepReport as StepReport
    from resource_api.model.report import StepStart as StepStart
    from resource_api.model.report import Summary as Summary
    from resource_api.model.step import PolicyPlan as PolicyPlan
    from resource_api.model.step import PolicyResource as PolicyResource
    from resource_api.model.step import PolicyStep as PolicyStep
    from resource_api.model.step import Step as Step
    from resource_api.model.type_definition import ComponentDefinition as ComponentDefinition
    from resource_api.model.type_definition import Function as Function
    from resource_api.model.type_definition import Resource as Resource
    from resource_api.model.type_definition import TypeDefinition as TypeDefinition
    from resource_api.model.values.assets import Archive as Archive
    from resource_api.model.values.assets import Asset as Asset
    from resource_api.model.values.errors import CannotList as CannotList
    from resource_api.model.values.errors import CommandError as CommandError
    from resource_api.model.values.errors import DefinitionError as DefinitionError
    from resource_api.model.values.errors import ManifestError as ManifestError
    from resource_api.model.values.errors import Problem as Problem
    from resource_api.model.values.errors import ProviderError as ProviderError
    from resource_api.model.values.errors import ResourceAPIError as ResourceAPIError
    from resource_api.model.values.errors import ResourceError as ResourceError
    from resource_api.model.values.errors import StateError as StateError
    from resource_api.model.values.errors import StateLocked as StateLocked
    from resource_api.model.values.errors import UsageError as UsageError
    from resource_api.model.values.values import UNKNOWN as UNKNOWN
    from resource_api.model.values.values import Sensitive as Sensitive
    from resource_api.model.values.version import __version__ as __version__
    from resource_api.plugins.registry import Registry as Registry
    from resource_api.provider.base import BaseProvider as BaseProvider
    from resource_api.provider.base import SimpleProvider as SimpleProvider
    from resource_api.provider.command import Command as Command
    from resource_api.provider.command import CommandResult as CommandResult
    from resource_api.provider.computation import compute as compute
    from resource_api.provider.context import Context as Context
    from resource_api.runtime.planning import Plan as Plan
    from resource_api.runtime.runtime import Report as Report
    from resource_api.runtime.runtime import Runtime as Runtime
    from resource_api.system.filesystem.account_files import change_accounts as change_accounts
    from resource_api.system.filesystem.backups import BackupStore as BackupStore
    from resource_api.system.filesystem.backups import backup_directory as backup_directory
    from resource_api.system.log import Log as Log

_HOMES = {
    "resource_api.manifest.python_manifest": ("ComponentApi", "DeclaredResource", "ManifestApi", "PendingValue"),
    "resource_api.provider.base": ("BaseProvider", "SimpleProvider"),
    "resource_api.plugins.registry": ("Registry",),
    "resource_api.runtime.planning": ("Plan",),
    "resource_api.runtime.runtime": ("Report", "Runtime"),
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
    __all__ = [name for names in _HOMES.values() for name in names if name != "__version__"]

    def __getattr__(name: str) -> Any:
        """Load a public name from its module when it is first used: importing all of them would delay every start."""
        from importlib import import_module

        for home, names in _HOMES.items():
            if name in names:
                value = globals()[name] = getattr(import_module(home), name)
                return value
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted([*__all__, "__version__"])
