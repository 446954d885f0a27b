# frozen_string_literal: true

module Portalock
  # A lock: a name, its options, and at most one acquire at a time. Not reentrant. Made by {Client#lock}.
  #
  # Every method may be called from any thread or fiber at any time. All times are seconds. Waiting lets
  # other threads run, lets other fibers run where a fiber scheduler is set, and ends at once on
  # Thread#kill, Thread#raise, Timeout.timeout and Ctrl-C; nothing of it is left on the server then.
  #
  # A lock that is garbage collected is released: keep it as long as it is to be held.
  #
  # After a fork the locks of the parent raise {Forked} in the child, and stay the parent's.
  class Lock
    # Made once, and by identity: where a new one is made, an interrupt can come before it is in force.
    UNINTERRUPTED = { Object => :never }.compare_by_identity.freeze
    private_constant :UNINTERRUPTED

    # @return [String]
    attr_reader :name

    # @api private
    def initialize(client, pump, name, settings)
      @name = Arguments.text(name, "the name").dup.freeze
      # Not for its own use: the client must not be garbage collected while there are locks of it.
      @client = client
      pointer = Arguments.options(:lock, settings) do |options|
        Native.fetch(:pl_lock_new, :pointer, client.pointer, @name, options)
      end
      @handle = Handle.new(pointer, :pl_lock_free)
      @inbox = Inbox.new(@handle)
      pump.register(@inbox)
    end

    # Acquires the lock, yields it, and releases it, however the block is left.
    #
    # @param timeout [Numeric, nil, :default] how long to wait, in seconds: 0 for one attempt, nil without a
    #   bound, :default for what the lock's options say (5 unless set)
    # @param shared [Boolean, nil] together with other readers, or alone; nil for what the options say
    # @yieldparam lock [Lock] this
    # @return [Object] what the block returns
    # @raise [Lost] when the block is left, if the lock was lost meanwhile. If the block itself raised
    #   something, that is raised instead, with the {Lost} as its cause unless it has one
    # @raise [NotHeld, Invalid] when the block is left, if it has released or closed the lock itself
    # @raise [Error] as {#acquire} does; the block is not called then
    def synchronize(timeout: :default, shared: nil)
      attempt = Attempt.new
      undone_at_the_end(attempt) do
        contend(attempt, timeout, shared)
        yield self
      end
    end

    # Acquires the lock, and waits for its turn: waiters are served in the order in which they came.
    #
    # An interrupt may always come just when this has returned. Where there may be some, it takes
    # {#synchronize} to be sure that the lock is released, or Thread.handle_interrupt with :on_blocking
    # around this and the begin of a block with ensure.
    #
    # @param timeout [Numeric, nil, :default] see {#synchronize}
    # @param shared [Boolean, nil] see {#synchronize}
    # @return [self]
    # @raise [Timeout] the time is up, and others hold the lock
    # @raise [Locked] after one attempt, or if the lock's options have fail_when_locked
    # @raise [Active] it is being acquired or held already
    # @raise [Cancelled] by {#cancel} or {#close}
    # @raise [ConnectionError] the server could not be used until the time was up
    # @raise [Invalid] timeout is negative or longer than a year, or this is closed
    # @raise [Forked]
    def acquire(timeout: :default, shared: nil)
      attempt = Attempt.new
      undone_at_the_end(attempt) do
        contend(attempt, timeout, shared)
        attempt.keep
      end
      self
    end

    # Acquires the lock if that is possible at once; asks the server all the same.
    #
    # @param shared [Boolean, nil] see {#synchronize}
    # @return [Boolean] whether it is held now; false if somebody else holds it
    # @raise [Error] as {#acquire} does
    def try_acquire(shared: nil)
      acquire(timeout: 0, shared: shared)
      true
    rescue Locked
      false
    end

    # Releases the lock. Does not wait, unless told to, and may be called from a signal handler then.
    #
    # @param confirm [Numeric, nil] how long to wait until the server has confirmed it, in seconds
    # @return [self]
    # @raise [Lost] once, if the lock was lost while it was held: it can be acquired again then
    # @raise [NotHeld] there is nothing to release
    # @raise [Timeout] not confirmed in time, and under way all the same
    # @raise [Forked, Invalid]
    def release(confirm: nil)
      pointer = @handle.pointer
      @inbox.released
      if confirm.nil?
        Native.call(:pl_lock_release, pointer)
      else
        timeout = Arguments.milliseconds(confirm)
        Native.aside { Native.call(:pl_lock_release_wait, pointer, timeout) }
      end
      self
    end

    # Sets what is called when the lock is lost while it is held, in place of what was set before; without
    # a block, nothing is. It is called in a thread that the client has for this, may call every method,
    # and delays other callbacks of this client as long as it runs. What it raises is printed.
    #
    # @yieldparam loss [Loss]
    # @return [self]
    def on_lost(&block)
      @handle.pointer
      @inbox.on_lost = block
      self
    end

    # @return [Loss, nil] the latest loss of this lock, as far as it is known by now
    def loss
      @inbox.loss
    end

    # @return [Boolean] whether it is held, as far as this process knows. Asks nobody. False in a child of
    #   the process that made it, and when it is closed
    def held?
      Native.pl_lock_is_held(@handle.pointer_or_null)
    end

    # The fencing token: higher than that of every exclusive grant before. A resource that refuses lower
    # ones than it has seen is safe from a holder that acts late. Needs the option fencing.
    #
    # @return [Integer]
    # @raise [NotHeld] there is none: not held, held with readers, or no fencing
    # @raise [Forked, Invalid]
    def fencing_token
      Native.fetch(:pl_lock_fencing_token, :uint64, @handle.pointer)
    end

    # @return [String] the id of the acquire that is under way or held: 32 hex digits
    # @raise [NotHeld] there is none
    # @raise [Forked, Invalid]
    def holder_id
      buffer = FFI::MemoryPointer.new(:char, 33)
      Native.call(:pl_lock_holder_id, @handle.pointer, buffer, buffer.size)
      buffer.read_string
    end

    # Asks who is on the lock's channel: holders first, then waiters in their order. Waits.
    #
    # @param timeout [Numeric] how long to wait for answers, in seconds
    # @return [Array<Holder>]
    # @raise [Unclear] somebody is there who does not answer, which is not the same as nobody
    # @raise [ConnectionError, Forked, Invalid]
    def holders(timeout: 1)
      @client.holders(@name, timeout: timeout)
    end

    # Makes sure that the lock is still held: the server has to answer. Waits.
    #
    # @param timeout [Numeric] how long it may take, in seconds
    # @return [true] it was held after this was called
    # @raise [Timeout] it may be lost, and is not given up for that
    # @raise [Lost] as often as it is asked, until the lock is released
    # @raise [NotHeld, Forked, Invalid]
    def verify(timeout: 1)
      pointer = @handle.pointer
      timeout = Arguments.milliseconds(timeout)
      Native.aside { Native.call(:pl_lock_verify, pointer, timeout) }
      true
    end

    # @return [Float, nil] how many seconds ago the lock was last known to be held; nil if it is not.
    #   Asks nobody
    def verified_age
      age = Native.pl_lock_verified_age(@handle.pointer_or_null)
      age / 1000.0 unless age.negative?
    end

    # Makes an acquire that is under way elsewhere raise {Cancelled}, unless it is granted first. Does not
    # wait; may be called from a signal handler.
    #
    # @return [self]
    # @raise [Forked, Invalid]
    def cancel
      Native.pl_lock_cancel(@handle.pointer)
      self
    end

    # Releases what is held, ends an acquire that is under way, and frees what belongs to the lock. May be
    # called again. Does nothing in a child of the process that made it.
    #
    # @return [nil]
    def close
      @inbox.close unless @handle.forked?
      nil
    end

    # @return [Boolean]
    def closed?
      @handle.closed?
    end

    # @return [String]
    def inspect
      state = if @handle.forked? then "of another process"
              elsif closed? then "closed"
              else held? ? "held" : "not held"
              end
      "#<#{self.class} #{@name.inspect} #{state}>"
    end

    private

    # Releases what the block has acquired, or ends what it has begun, however it is left: at once where no
    # interrupt can come any more, and once more should one have come before that.
    def undone_at_the_end(attempt)
      begin
        yield
      rescue Exception => e # rubocop:disable Lint/RescueException
        error = e
        raise
      ensure
        Thread.handle_interrupt(UNINTERRUPTED) { undo(attempt, error) }
      end
    ensure
      Thread.handle_interrupt(UNINTERRUPTED) { undo(attempt, error) }
      attempt.await_end
    end

    # Not to be interrupted.
    def undo(attempt, error)
      return @inbox.forget(attempt) unless attempt.started?
      return unless attempt.to_be_undone?

      take_up(attempt)
      return abandon(attempt) unless attempt.granted?

      attempt.keep
      leave(error)
    end

    # Whoever calls this has to look after the attempt, however this ends.
    def contend(attempt, timeout, shared)
      timeout = Arguments.timeout(timeout)
      mode = Arguments.mode(shared)
      pointer = @handle.pointer
      @client.start_pump
      @inbox.settle
      Thread.handle_interrupt(Object => :never) { start(attempt, pointer, mode, timeout) }
      @client.start_pump # Again, should it have been killed in between.
      error = attempt.wait
      raise error if error
    end

    # Not to be interrupted, as far as Ruby lets one say so: a signal's default action interrupts all the
    # same, at the end of a call. So it is the attempt that knows whether it was started.
    def start(attempt, pointer, mode, timeout)
      @inbox.expect(attempt)
      failure = begin_or_start(attempt, pointer, mode, timeout)
      raise failure if failure

      take_up(attempt)
    rescue Error
      @inbox.forget(attempt)
      raise
    end

    # Asks the server in here, which takes 3 ms at the most, unless other fibers would have to wait for that.
    # @return [Error, nil] why it was not started
    def begin_or_start(attempt, pointer, mode, timeout)
      return Native.attempt(:pl_lock_acquire_begin, pointer, mode, timeout, attempt.place) unless Fiber.current_scheduler

      Native.attempt(:pl_lock_acquire_start, pointer, mode, timeout, Native::NO_CALLBACK) do |status|
        attempt.started!(status)
      end
    end

    # What was started is under way from here on, or held already. May be called again.
    def take_up(attempt)
      attempt.under_way!
      return @inbox.granted(attempt) if attempt.held_at_once?

      @inbox.look if attempt.overlooked?
    end

    # After an interrupt: what was begun is undone. If it is granted meanwhile, the pump gives it back; so
    # waiting for the end, which comes after this, may be interrupted too. It is not done here since this
    # runs where interrupts are deferred, which other fibers of the thread would have to suffer too.
    def abandon(attempt)
      return Native.pl_lock_cancel(@handle.pointer_or_null) unless attempt.orphan

      release_failure if attempt.granted?
    end

    # Releases at the end of a block that was left with this error, or none.
    def leave(error)
      failure = release_failure
      return unless failure
      raise failure unless error || being_killed?

      raise error, cause: failure if failure.is_a?(Lost) && notable?(error)
    end

    # Returned and not raised: what is raised while there is an error already has that as its cause, and
    # cannot be the cause of it any more.
    def release_failure
      @inbox.released
      Native.attempt(:pl_lock_release, @handle.pointer)
    rescue Error => e
      e
    end

    # Whether a loss may become the cause of an error.
    def notable?(error)
      error && error.cause.nil? && !error.is_a?(Lost) && !error.frozen?
    end

    # To raise something would save the thread's life.
    def being_killed?
      Thread.current.status == "aborting"
    end
  end
end
