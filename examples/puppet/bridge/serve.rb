# frozen_string_literal: true

# Runs a provider that was written for Puppet's Resource API: a program that speaks docs/protocol.md.
require 'json'

BRIDGE = File.expand_path(__dir__)
$LOAD_PATH.unshift(BRIDGE, File.join(File.dirname(BRIDGE), 'lib'))
require 'puppet/resource_api'

# Frames on standard input and output.
class Frames
  MARK = 'RApi '
  PART = 'RApi+ '
  LONGEST = 1 << 20

  def initialize(input, output)
    @input = input.binmode
    @output = output.binmode
  end

  def send(kind, body = {})
    # In ASCII the length of a text is its number of bytes.
    text = JSON.generate({ kind: kind }.merge(body), ascii_only: true)
    size = LONGEST - PART.length - 1
    while text.length > size
      @output.write("#{PART}#{text.slice!(0, size)}\n")
    end
    @output.write("#{MARK}#{text}\n")
    @output.flush
  end

  def each
    parts = +''
    while (line = @input.gets)
      mark, rest = line.chomp.split(' ', 2)
      parts << rest
      next unless mark == 'RApi'

      frame = JSON.parse(parts)
      parts = +''
      yield frame
    end
  end
end

# What a provider is given: log lines and the results of its changes.
class Context
  def initialize(frames)
    @frames = frames
  end

  %w[debug info notice warning err].each do |level|
    define_method(level) do |*arguments|
      names, text = arguments.length > 1 ? [Array(arguments[0]), arguments[1]] : [[nil], arguments[0]]
      names.each { |name| @frames.send('log', { level: level, text: text.to_s, name: name }.compact) }
    end
  end

  { creating: 'created', updating: 'updated', deleting: 'deleted' }.each do |method, status|
    define_method(method) do |names, **_options, &block|
      block.call
      Array(names).each { |name| report(name, status) }
    rescue StandardError => e
      # The run goes on with the other resources, and reads this one again.
      failed(names, message: e.message)
    end
    define_method(status) { |names, **_options| Array(names).each { |name| report(name, status) } }
  end

  def failed(names, message: 'failed')
    Array(names).each { |name| @frames.send('status', name: name, status: 'failed', reason: message) }
  end

  def attribute_changed(name, attribute, is, should, message: nil)
    @frames.send('attribute', { name: name, attribute: attribute, is: is, should: should, message: message }.compact)
  end

  private

  def report(name, status)
    @frames.send('status', name: name, status: status)
  end
end

# Answers the calls of a run.
class Program
  def initialize(provider, frames)
    @provider = provider
    @frames = frames
    @context = Context.new(frames)
  end

  def serve
    @frames.each do |frame|
      case frame['kind']
      when 'hello' then @frames.send('ready', protocol: 3)
      when 'call' then answer(frame)
      when 'close'
        @frames.send('closed')
        break
      end
    end
  end

  private

  def answer(frame)
    method = frame['method']
    return refuse(frame, "there is no method '#{method}'") unless %w[get set canonicalize insync].include?(method)

    @frames.send('done', id: frame['id'], value: __send__(method, *frame['arguments']))
  rescue StandardError => e
    refuse(frame, e.message)
  end

  def refuse(frame, text)
    @frames.send('raised', id: frame['id'], text: text)
  end

  def get(names = nil)
    @provider.method(:get).arity.abs > 1 ? @provider.get(@context, names) : @provider.get(@context)
  end

  def set(order)
    rows = order['changes'].reject { |change| order['blocked'].include?(change['name']) }
    changes = rows.to_h { |row| [row['name'], { is: resource(row['is']), should: resource(row['should']) }] }
    @provider.set(@context, changes)
    nil
  end

  def canonicalize(resources)
    @provider.canonicalize(@context, resources.map { |row| resource(row) })
  end

  def insync(calls)
    calls.map { |name, attribute, is, should| { value: insync?(name, attribute, is, should) } }
  end

  def insync?(name, attribute, is, should)
    @provider.insync?(@context, name, attribute.to_sym, resource(is), resource(should))
  end

  # A resource with symbols as keys, and with secrets that must be unwrapped.
  def resource(row)
    row&.to_h { |key, value| [key.to_sym, plain(value)] }
  end

  def plain(value)
    return value unless value.is_a?(Hash) && value['$resource_api'] == 'sensitive'

    Puppet::ResourceApi::Sensitive.new(value['value'])
  end
end

# Serve the provider of a type, or print the type as data.
def serve(name)
  require "puppet/type/#{name}"
  return puts(JSON.pretty_generate(Puppet::ResourceApi.type_as_data)) if ARGV == ['--type']

  require "puppet/provider/#{name}/#{name}"
  constant = name.split('_').map(&:capitalize).join
  provider = Puppet::Provider.const_get(constant).const_get(constant).new
  frames = Frames.new($stdin, $stdout.dup)
  # What a provider prints is no frame.
  $stdout = $stderr
  Program.new(provider, frames).serve
end
