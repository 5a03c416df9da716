# frozen_string_literal: true

require 'puppet/resource_api/simple_provider'

# Keeps variables in a file, as a provider for Puppet does.
class Puppet::Provider::EnvSetting::EnvSetting < Puppet::ResourceApi::SimpleProvider
  def canonicalize(_context, resources)
    resources.each { |resource| resource[:value] = resource[:value].strip if resource[:value] }
  end

  def get(context, names = nil)
    context.debug("reading #{path}")
    settings = load
    settings = settings.slice(*names) if names
    settings.map { |name, value| { name: name, ensure: 'present', value: value } }
  end

  def create(context, name, should)
    context.notice(name, "setting #{name}")
    store(load.merge(name => should.fetch(:value)))
  end

  def update(_context, name, should)
    settings = load
    store(settings.merge(name => should.fetch(:value, settings[name])))
  end

  def delete(_context, name)
    store(load.reject { |key, _| key == name })
  end

  private

  def path
    ENV.fetch('ENV_SETTINGS')
  end

  def load
    return {} unless File.exist?(path)

    File.readlines(path, chomp: true, encoding: 'UTF-8').to_h { |line| line.split('=', 2) }
  end

  def store(settings)
    File.write("#{path}.new", settings.map { |name, value| "#{name}=#{value}\n" }.join)
    File.rename("#{path}.new", path)
  end
end
