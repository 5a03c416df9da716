# frozen_string_literal: true

# Stands in for the library of this name: keeps the definition of a type, without Puppet.
module Puppet
  module Provider; end

  module ResourceApi
    # A secret, as providers unwrap it.
    class Sensitive
      def initialize(value)
        @value = value
      end

      def unwrap
        @value
      end

      def to_s
        '<sensitive>'
      end
      alias inspect to_s
    end

    class << self
      attr_reader :definition

      def register_type(definition)
        @definition = definition
        # Providers open this module by its name.
        name = definition[:name].split('_').map(&:capitalize).join
        Provider.const_set(name, Module.new) unless Provider.const_defined?(name)
      end

      # The definition as docs/protocol.md describes it, with the words of Puppet replaced.
      def type_as_data
        attributes = definition[:attributes].to_h { |name, attribute| [name, attribute_as_data(attribute)] }
        { name: definition[:name], docs: definition[:docs] || definition[:desc], attributes: attributes,
          features: (definition[:features] || []).map(&:to_s) }
      end

      private

      def attribute_as_data(attribute)
        kind = attribute[:behaviour] || attribute[:behavior]
        data = { type: attribute[:type], docs: attribute[:desc] || attribute[:docs] }
        data[:default] = attribute[:default] if attribute.key?(:default)
        kind ? data.merge(kind: kind.to_s) : data
      end
    end
  end
end
