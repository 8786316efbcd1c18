# frozen_string_literal: true

# SPDX-License-Identifier: Apache-2.0
# gpupool for Ruby: what is shorter in Ruby than in C.
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
  # Being over the limit is a way of being out of memory.
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

        value = GpuPool.const_get("#{option}_#{value}".upcase) if value.is_a?(Symbol)
        public_send("#{option}=", value)
      end
    end
  end
  private_constant :Options

  class Config
    prepend Options

    # Numbers of other devices that may access the pool's memory.
    def peers=(devices)
      devices.each { |device| add_peer(device) }
    end
  end

  class SimConfig
    prepend Options
  end

  # close as an end of a block of code.
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

    # Pool.new(limit_bytes: 1 << 30), with the options of gpupool_config_t, or with a Config.
    prepend(Module.new do
      def initialize(config = nil, **options)
        super(config || Config.new(**options))
      end

      # A stream that goes with the pool, or at the end of a block of code.
      def create_stream(&code)
        closing(super(), &code)
      end
    end)

    # As new; with a block of code, the pool is closed at its end.
    def self.open(config = nil, **options, &code)
      closing(new(config, **options), &code)
    end

    # A block that frees itself; with a block of code, at its end.
    def allocate(size, stream = 0, alignment = 512, &code)
      closing(create_block(size, stream, alignment), &code)
    end

    # Asks the block of code before a malloc fails: it frees something, if it can, and returns whether the malloc
    # should be tried again. What it raises is raised by the malloc.
    def on_out_of_memory(&handler)
      self.oom_handler = handler
    end
  end

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

  # Sets how a simulated device behaves, by the fields of gpupool_sim_config_t.
  def self.configure_sim(device, **options)
    sim_configure(device, SimConfig.new(**options))
  end
end
