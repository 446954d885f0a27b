# frozen_string_literal: true

module Portalock
  # A handle of the library: freed when it is closed or garbage collected, and in no other process than
  # the one that made it. Thread-safe.
  # @api private
  class Handle
    def initialize(pointer, free)
      @pointer = pointer
      @free = free
      @pid = Process.pid
      @closing = Mutex.new
      ObjectSpace.define_finalizer(self, Handle.releaser(free, pointer.address, @pid))
    end

    # In the class, so that the proc holds nothing but these three.
    def self.releaser(free, address, pid)
      proc { Native.public_send(free, FFI::Pointer.new(address)) if Process.pid == pid }
    end

    # @return [FFI::Pointer]
    # @raise [Forked, Invalid]
    def pointer
      raise Forked, "made before a fork, by the parent of this process" if forked?

      @pointer or raise Invalid, "it is closed"
    end

    # @return [FFI::Pointer] NULL for what must not be touched any more
    def pointer_or_null
      (forked? ? nil : @pointer) || FFI::Pointer::NULL
    end

    def address
      @pointer&.address
    end

    def forked?
      Process.pid != @pid
    end

    def closed?
      @pointer.nil?
    end

    # Does nothing in a child of the process that made it.
    def close
      return if forked?

      @closing.synchronize do
        pointer = @pointer
        @pointer = nil
        next unless pointer

        ObjectSpace.undefine_finalizer(self)
        Native.public_send(@free, pointer)
      end
    end

    # For what belongs to the handle and must not be closed meanwhile: the number of a descriptor would be
    # that of another file then.
    #
    # @yieldparam pointer [FFI::Pointer]
    # @raise [Forked, Invalid]
    def kept_open
      @closing.synchronize { yield pointer }
    end
  end
end
