# frozen_string_literal: true

require 'puppet/resource_api'

Puppet::ResourceApi.register_type(
  name: 'env_setting',
  docs: 'Variables in the file $ENV_SETTINGS, one `NAME=value` a line.',
  attributes: {
    ensure: { type: 'Enum[present, absent]', desc: 'Whether the variable is set.', default: 'present' },
    name: { type: 'Pattern[/\A[A-Z_][A-Z0-9_]*\z/]', desc: 'The name of the variable.', behaviour: :namevar },
    value: { type: 'Pattern[/\A[^\x00\r\n]*\z/]', desc: 'Its value.' },
  },
  features: ['simple_get_filter', 'canonicalize'],
)
