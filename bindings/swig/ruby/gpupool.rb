# frozen_string_literal: true

# SPDX-License-Identifier: Apache-2.0
# gpupool for Ruby: shorter ways than C's.
#
#   GpuPool::Pool.open(limit_bytes: 1 << 30) do |pool|
#     pool.allocate(1 << 20) { |block| block.fill(0) }
#   end
require "gpupool_native"

module GpuPool
  # A call of the library that failed; the message explains why. Each status has a class of its own, such as
  # UnknownPointerError.
  class Error < StandardError
    # Number of the status, and the driver's own number or 0.
    attr_reader :status, :driver_code

    def initialize(message = nil, status = ERROR_INTERNAL, driver_code = 0)
      super(message)
      @status = status
      @driver_code = driver_code
    end

    # The status in C, such as "GPUPOOL_ERROR_OVER_LIMIT".
    def status_name
      GpuPool.status_name(status)
    end

    # For the native code.
    def self.of(status, driver_code, message)
      CLASSES.fetch(status, Error).new(message, status, driver_code)
    end
  end

  class OutOfMemoryError < Error; end
  # To be over the limit is to be out of memory.
  class OverLimitError < OutOfMemoryError; end

  CLASSES = constants.grep(/\AERROR_/).to_h do |constant|
    name = "#{constant.to_s.delete_prefix("ERROR_").split("_").map(&:capitalize).join}Error"
    const_set(name, Class.new(Error)) unless const_defined?(name, false)
    [const_get(constant), const_get(name)]
  end.freeze
  private_constant :CLASSES

  # Options as keywords, for Config and SimConfig. A symbol stands for a constant: backend: :sim is BACKEND_SIM.
  module Options
    def initialize(**options)
      super()
      options.each do |option, value|
        raise ArgumentError, "unknown option #{option}" unless respond_to?("#{option}=")

        public_send("#{option}=", value.is_a?(Symbol) ? constant(option, value) : value)
      end
    end

    private

    def constant(option, value)
      prefix = "#{option.upcase}_"
      names = GpuPool.constants.filter_map { |name| name.to_s.delete_prefix!(prefix)&.downcase&.to_sym }
      return GpuPool.const_get("#{prefix}#{value.upcase}") if names.include?(value)
      raise ArgumentError, "#{option} is #{value.inspect}: there are no names for it" if names.empty?

      raise ArgumentError, "#{option} is #{value.inspect}: one of #{names.sort.map(&:inspect).join(", ")} is wanted"
    end
  end
  private_constant :Options

  class Config
    prepend Options
    prepend(Module.new do
      # A number, or words: "cuda:1", "sim".
      def device=(device)
        device.is_a?(String) ? parse_device(device) : super
      end
    end)

    # Bytes, or words: "8GiB", or "40%" of the device.
    def limit=(limit)
      limit.is_a?(String) ? parse_limit(limit) : self.limit_bytes = limit
    end

    # The group of processes to share the device's memory with.
    def share=(group)
      set_share(group)
    end

    # Numbers of other devices that may access the pool's memory.
    def peers=(devices)
      devices.each { |device| add_peer(device) }
    end
  end

  class SimConfig
    prepend Options
  end

  # Closes an object at the end of a block of code.
  module Closing
    private

    def closing(object)
      return object unless block_given?

      begin
        yield object
      ensure
        object.close
      end
    end
  end
  private_constant :Closing

  class Pool
    extend Closing
    include Closing

    # Pool.new("cuda:1", limit: "8GiB"), Pool.new(1), Pool.new(limit_bytes: 1 << 30), with the options of
    # gpupool_config_t, or with a Config.
    prepend(Module.new do
      def initialize(device = nil, **options)
        super(device.is_a?(Config) ? alone(device, options) : Config.new(**with_device(device, options)))
      end

      # A stream that goes with the pool, or at the end of a block of code.
      def create_stream(&code)
        closing(super(), &code)
      end

      private

      # Options beside a Config would be lost.
      def alone(config, options)
        return config if options.empty?

        raise ArgumentError, "Pool: #{options.keys.first} stands beside a Config, which has its own"
      end

      def with_device(device, options)
        return options if device.nil?
        raise ArgumentError, "Pool: the device is named twice" if options.key?(:device)
        return options.merge(device: device) if device.is_a?(Integer) || device.is_a?(String)

        wanted = 'an Integer, a String such as "cuda:1", or a Config is wanted'
        raise TypeError, "Pool: device is #{device.inspect}: #{wanted}"
      end
    end)

    # As new; with a block of code, the pool is closed at its end.
    def self.open(device = nil, **options, &code)
      closing(new(device, **options), &code)
    end

    # Bytes, or words: "8GiB", or "40%" of the device.
    def limit=(limit)
      limit.is_a?(String) ? parse_limit(limit) : self.limit_bytes = limit
    end

    # A block that frees itself; with a block of code, at its end.
    def allocate(size, stream = 0, alignment = 512, &code)
      closing(create_block(size, stream, alignment), &code)
    end

    # Calls the block of code before a malloc fails: it frees something, if it can, and returns whether the malloc
    # should be tried again. The malloc raises what it raises.
    def on_out_of_memory(&handler)
      self.oom_handler = handler
    end
  end

  # What Block and Slice have in common, beyond what the native code gives.
  module Bytes
    include Closing

    # A part, which keeps the block; with a block of code, until its end.
    def slice(offset, length, &code)
      closing(super(offset, length), &code)
    end
  end
  private_constant :Bytes

  [Block, Slice].each { |type| type.prepend(Bytes) }

  class Snapshot
    # Mapped memory.
    def segments
      Array.new(segment_count) { |index| segment(index) }
    end

    # Blocks: live, pending and cached.
    def blocks
      Array.new(block_count) { |index| block(index) }
    end
  end

  class ShareGroup
    # The members in the order of their numbers.
    def members
      Array.new(member_count) { |index| member(index) }
    end
  end

  # to_h of what the library fills in: {reserved_bytes: {current: 0, ...}, ...}.
  module Figures
    def to_h
      self.class.instance_methods(false).filter_map do |name|
        next if %i[inspect to_s].include?(name) || name.end_with?("=")

        value = public_send(name)
        [name, value.is_a?(Figures) ? value.to_h : value]
      end.to_h
    end
  end
  private_constant :Figures

  [Stat, StatGroup, CallStat, DriverStats, Stats, BlockInfo, Segment, DeviceInfo, Share, ShareMember].each do |figures|
    figures.include(Figures)
  end

  [Pool, Stream, Block, Slice, Stats].each { |type| type.alias_method(:to_s, :inspect) }

  # Mallocs of the block of code carry the name, in reports and recordings; what it raises ends it too. Tags nest; the
  # innermost counts. It follows the thread, not the fiber: do not resume another one inside it.
  def self.tag(name)
    tag_push(name)
    begin
      yield
    ensure
      tag_pop
    end
  end

  # Sets how a simulated device behaves, by the fields of gpupool_sim_config_t.
  def self.configure_sim(device, **options)
    sim_configure(device, SimConfig.new(**options))
  end
end
