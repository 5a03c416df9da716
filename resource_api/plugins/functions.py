"""Calls the functions that types declare for the values of a manifest, each with the same inputs once in a transaction.

A function reads: it is called like ``get``, and its result is checked against its data type. When a function is called,
and what follows when it fails, is decided in ``snapshot`` and ``transaction``.
"""

from __future__ import annotations

import json
from copy import deepcopy
from typing import TYPE_CHECKING, Any

from resource_api.model.values.errors import reason
from resource_api.model.values.values import Sensitive, copy_resource, reveal
from resource_api.provider.context import Context
from resource_api.system import process_guard

if TYPE_CHECKING:
    from collections.abc import Mapping

    from resource_api.model.type_definition import FunctionCall
    from resource_api.plugins.provider_pool import ProviderPool


def call_function(providers: ProviderPool, call: FunctionCall, inputs: Mapping[str, Any], secret: bool) -> Any:  # noqa: FBT001 - part of the call
    """Return the result of a function, ``Sensitive`` where ``secret`` is true or its data type is.

    Raise ``ValueError`` with the reason when it fails; a failed call is made again the next time.
    """
    key = (call.instance, call.name, json.dumps(reveal(dict(inputs)), sort_keys=True, default=repr))
    if key not in providers.function_results:
        providers.function_results[key] = _call(providers, call, inputs, secret=secret)
    return deepcopy(providers.function_results[key])


def _call(providers: ProviderPool, call: FunctionCall, inputs: Mapping[str, Any], *, secret: bool) -> Any:
    datatype, run = call.function.datatype, providers.run
    run.log.mask.add(inputs)
    try:
        provider = providers.instance(call.instance)
        context = Context(providers.functions(call.instance).definition, run, answering=True)
        with process_guard.contained(), context.activate(provider), run.provider_call():
            answer = getattr(provider, call.name)(context, **copy_resource(inputs))
    except Exception as error:  # a provider's method may raise anything
        run.log_traceback(error, str(call))
        msg = f"function {call} failed: {reason(error)}"
        raise ValueError(msg) from error
    answer = reveal(answer)
    if not datatype.accepts(Sensitive(answer) if datatype.sensitive else answer):
        msg = f"function {call} must return {datatype.text}, and returned another {type(answer).__name__}"
        raise ValueError(msg)
    if not (secret or datatype.sensitive):
        return answer
    run.log.mask.add(Sensitive(answer))
    return Sensitive(answer)
