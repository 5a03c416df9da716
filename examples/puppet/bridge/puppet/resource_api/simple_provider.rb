# frozen_string_literal: true

module Puppet
  module ResourceApi
    # Calls create, update and delete, as the class of this name does.
    class SimpleProvider
      def set(context, changes)
        changes.each do |name, change|
          is = present?(change[:is])
          should = present?(change[:should])
          if !is && should
            context.creating(name) { create(context, name, change[:should]) }
          elsif is && should
            context.updating(name) { update(context, name, change[:should]) }
          elsif is
            context.deleting(name) { delete(context, name) }
          end
        end
      end

      private

      def present?(resource)
        !resource.nil? && resource.fetch(:ensure, 'present').to_s != 'absent'
      end
    end
  end
end
