"""Asks providers for the functions that their types declare; each question once in a transaction.

A function reads: it is called like ``get``, and what it answers is held to its data type. When it is called, and what
follows when it cannot be, is the stages' business.
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

    from resource_api.model.function import Call
    from resource_api.plugins.provider_pool import ProviderPool


def ask(providers: ProviderPool, call: Call, inputs: Mapping[str, Any], secret: bool) -> Any:  # noqa: FBT001 - part of the question
    """Give what a function answers, as a secret where ``secret`` or where it says so.

    Raises ``ValueError`` with why there is no answer; then it is asked again the next time.
    """
    key = (call.instance, call.name, json.dumps(reveal(dict(inputs)), sort_keys=True, default=repr))
    if key not in providers.answers:
        providers.answers[key] = _ask(providers, call, inputs, secret=secret)
    return deepcopy(providers.answers[key])


def _ask(providers: ProviderPool, call: Call, inputs: Mapping[str, Any], *, secret: bool) -> Any:
    datatype, run = call.function.datatype, providers.run
    run.log.mask.add(inputs)
    try:
        provider = providers.instance(call.instance)
        context = Context(providers.tools(call.instance).definition, run, reading=True)
        with process_guard.contained(), context.activate(provider), run.provider_call():
            answer = getattr(provider, call.name)(context, **copy_resource(inputs))
    except Exception as error:  # a foreign method may fail in any way
        msg = f"function {call} failed: {reason(error)}"
        raise ValueError(msg) from error
    answer = reveal(answer)
    if not datatype.accepts(Sensitive(answer) if datatype.sensitive else answer):
        msg = f"function {call} must give {datatype.text}, and gave another {type(answer).__name__}"
        raise ValueError(msg)
    if not (secret or datatype.sensitive):
        return answer
    run.log.mask.add(Sensitive(answer))
    return Sensitive(answer)
