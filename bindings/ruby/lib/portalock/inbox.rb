# frozen_string_literal: true

module Portalock
  # Where the events of one lock arrive. It is apart from the lock, and knows nothing of it, so that the
  # pump keeps no lock from being garbage collected. Thread-safe.
  # @api private
  class Inbox
    # @return [Handle] the lock's
    attr_reader :handle
    # @return [Loss, nil] the latest
    attr_reader :loss
    # @return [Proc, nil] what is called with a {Loss}
    attr_accessor :on_lost

    def initialize(handle)
      @handle = handle
      @mutex = Mutex.new
      @attempt = nil
      @holds = false
    end

    # An attempt begins.
    # @raise [Active] if there is one already
    def expect(attempt)
      @mutex.synchronize do
        raise Active, "this lock is being acquired already" if @attempt

        @attempt = attempt
      end
    end

    # Waits for the end of an attempt that nobody wants any more, if there is one: whoever made it may have
    # been interrupted once more while it waited for that.
    def settle
      attempt = @mutex.synchronize { @attempt }
      attempt.await_end if attempt&.orphaned?
    end

    # An attempt could not begin.
    def forget(attempt)
      @mutex.synchronize { @attempt = nil if @attempt.equal?(attempt) }
    end

    # An attempt was granted as soon as it began; nobody else was told of it. May be called again.
    def granted(attempt)
      mine = @mutex.synchronize do
        own = @attempt.equal?(attempt)
        @attempt = nil if own
        own
      end
      return unless mine

      # It may be lost again by now.
      @holds = Native.pl_lock_is_held(@handle.pointer_or_null)
      attempt.finish(Native::OK, "") { release }
    end

    # An attempt has ended. If nobody waits for it, a grant is given back.
    def acquired(status, message)
      attempt = @mutex.synchronize do
        was = @attempt
        @attempt = nil
        was
      end
      @holds = status == Native::OK
      return attempt.finish(status, message) { release } if attempt

      release if @holds
    end

    # @return [Proc, nil] what is to be called now
    def lost(loss)
      @holds = false
      @loss = loss
      @on_lost
    end

    # It is no more held, by its holder's own will.
    def released
      @holds = false
    end

    # Some events were not kept: what they told has to be found out.
    # @return [Loss, nil] what was not told
    def look
      return if @mutex.synchronize { @attempt }&.looked_at? == false

      held = Native.pl_lock_is_held(@handle.pointer_or_null)
      if @attempt && held
        acquired(Native::OK, "")
      elsif @attempt && !under_way?
        acquired(Native::INTERNAL, "how the acquire has ended was not kept")
      elsif @holds && !held
        Loss.for(0, "the lock is lost, and why was not kept")
      end
    end

    # Whoever waits is told that it is in vain. The acquire itself ends as soon as it can, and until that is
    # told no other can begin: its end would be taken for that of the other.
    def give_up(message)
      Native.pl_lock_cancel(@handle.pointer_or_null)
      @mutex.synchronize { @attempt }&.finish(Native::CANCELLED, message) { nil }
    end

    # Releases what is held. Ends the acquire that is under way.
    def close
      @handle.close
      give_up("the lock was closed")
    end

    private

    def release
      Native.attempt(:pl_lock_release, @handle.pointer_or_null)
    end

    def under_way?
      buffer = FFI::MemoryPointer.new(:char, 33)
      Native.attempt(:pl_lock_holder_id, @handle.pointer_or_null, buffer, 33).nil?
    end
  end
end
