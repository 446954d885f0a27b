# frozen_string_literal: true

module Portalock
  # One acquire: somebody waits for it, and the pump tells it of its end. Thread-safe.
  #
  # Whoever waits may be interrupted at any time, also just when the lock is granted. So that exactly one
  # of the two releases a grant that nobody wants any more, it is settled here who that is.
  # @api private
  class Attempt
    # What the library leaves there as long as it has not been started: it writes 0 for under way, and 1
    # for held. A note of our own, made after the call, could be cut off by a signal.
    NOT_STARTED = 0xFF
    # What it writes when it only starts. Without a branch: signals are looked for at each.
    WRITTEN = Hash.new(NOT_STARTED).merge(Native::OK => 0).freeze
    private_constant :NOT_STARTED, :WRITTEN

    # @return [FFI::Pointer] where the library is to write whether it is held with the start
    attr_reader :place

    def initialize
      @place = FFI::MemoryPointer.new(:uint8).write_uint8(NOT_STARTED)
      @mutex = Mutex.new
      @ended = Thread::Queue.new
      @status = nil
      @under_way = false
      @overlooked = false
      @kept = false
      @orphaned = false
    end

    # It was started or not, by a call that does not write that itself.
    def started!(status)
      @place.write_uint8(WRITTEN[status])
    end

    # @return [Boolean]
    def started?
      @place.read_uint8 != NOT_STARTED
    end

    # @return [Boolean] whether it was held with the start: nobody else tells of it
    def held_at_once?
      @place.read_uint8 == 1
    end

    # It was started: its end is told, or will be.
    def under_way!
      @mutex.synchronize { @under_way = true }
    end

    # Somebody looked how it stands.
    # @return [Boolean] false if it was too early for that
    def looked_at?
      @mutex.synchronize do
        @overlooked = true unless @under_way
        @under_way
      end
    end

    # @return [Boolean] whether somebody looked too early
    def overlooked?
      @overlooked
    end

    # Waits for the end. Can be interrupted, lets other threads run and, where there is a scheduler,
    # other fibers.
    # @return [Error, nil] nil if it was granted
    def wait
      @ended.pop until @ended.closed?
      error
    end

    # @return [Boolean]
    def granted?
      @status == Native::OK
    end

    # Whoever wanted the lock has it, or has released it: it is no business of this any more.
    def keep
      @kept = true
    end

    # @return [Boolean] whether it was started, and neither kept nor given up
    def to_be_undone?
      started? && !@kept && !@orphaned
    end

    # Nobody wants the lock any more. If it has not been granted, that is up to {#finish} from now on.
    # @return [Boolean] whether it has ended already
    def orphan
      @mutex.synchronize do
        @orphaned = true
        !@status.nil?
      end
    end

    # @return [Boolean]
    def orphaned?
      @orphaned
    end

    # As {#wait}, but not for what has not begun.
    def await_end
      wait if @under_way
    end

    # Tells of the end. If that has been told before, those who waited have gone.
    # @yield if the lock was granted and nobody wants it any more
    def finish(status, message)
      unwanted = @mutex.synchronize do
        told = !@status.nil?
        @message, @status = message, status unless told
        told || @orphaned
      end
      yield if unwanted && status == Native::OK
    ensure
      @ended.close if @status
    end

    private

    def error
      Error.for(@status, @message) unless granted?
    end
  end
end
