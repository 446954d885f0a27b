# frozen_string_literal: true

require "io/wait"

module Portalock
  # Fetches the events of a client's locks in a thread of its own, and hands them to whom they are for. The
  # thread sleeps on the event queue's descriptor; it holds neither the client nor the locks, and ends when
  # the client is closed or garbage collected.
  # @api private
  class Pump
    # How long an event may come after what it tells can be seen, in seconds.
    SETTLING = 0.01
    private_constant :SETTLING

    # @param client [FFI::Pointer] the pointer only: the handle must not be kept alive
    def initialize(client)
      @client = client
      @inboxes = ObjectSpace::WeakMap.new
      @mutex = Mutex.new
      @running = false
      @missed = false
      @io = nil
      @callbacks = Callbacks.new
    end

    def register(inbox)
      @inboxes[inbox.handle.address] = inbox
    end

    # Makes sure that the thread runs: it is started when it is first needed, and anew if it was killed.
    #
    # @param handle [Handle] the client's; not kept
    # @raise [Forked, Invalid]
    def start(handle)
      return if @running

      @mutex.synchronize do
        next if @running

        @io ||= handle.kept_open { open }
        Thread.handle_interrupt(Object => :never) do
          # What has ended while it did not run is told first, so that the locks can be used again.
          drain
          @running = true
          spawn
        end
      end
    end

    # @return [Array<Inbox>]
    def inboxes
      @inboxes.values
    end

    private

    # A duplicate, which stays good when the library closes its own; what is in it is never read.
    def open
      fd = Native.fetch(:pl_client_event_fd, :int, @client)
      IO.for_fd(fd, autoclose: false).dup
    end

    def spawn
      Thread.new { run }.name = "portalock events"
    rescue ThreadError
      @running = false
      raise
    end

    # A thread begins with the interrupt mask of the one that starts it. So this one cannot be killed before
    # it has come to where those who wait are told.
    def run
      Thread.handle_interrupt(Object => :never) do
        loop do
          Thread.handle_interrupt(Object => :immediate) { @io.wait_readable }
          break unless drain
        end
      ensure
        finish
      end
    end

    # That it does not run any more is known before those who wait are told: whoever begins to wait after
    # that starts it again.
    def finish
      @mutex.synchronize do
        @running = false
        @io.close
        @io = nil
      end
      @callbacks.close
      inboxes.each { |inbox| inbox.give_up("the thread that fetches events has ended") }
    end

    # @return [Boolean] false if there is nothing to be fetched any more, since the client is freed
    def drain
      fetch_all
      look_at_all if @missed
      true
    rescue Error
      false
    end

    def fetch_all
      loop do
        event = Native.fetch(:pl_client_next_event, :pointer, @client, 0)
        return if event.null?

        begin
          dispatch(event)
        ensure
          Native.pl_event_free(event)
        end
      end
    end

    def dispatch(event)
      type = Native.pl_event_type_of(event)
      return @missed = true if type == Native::EVENT_OVERFLOW

      inbox = @inboxes[Native.pl_event_lock(event).address]
      return unless inbox

      message = Native.text(Native.pl_event_message(event))
      case type
      when Native::EVENT_ACQUIRED
        inbox.acquired(Native.pl_event_status(event), message)
      when Native::EVENT_LOST
        tell(inbox, Loss.for(Native.pl_event_loss_reason(event), message))
      end
    end

    def tell(inbox, loss)
      handler = inbox.lost(loss)
      @callbacks.call(handler, loss) if handler
    end

    # After events that were not kept. Those that were go first, and those that are just about to come: what
    # a lock has been told already must not be told again.
    def look_at_all
      sleep SETTLING
      fetch_all
      @missed = false
      inboxes.each do |inbox|
        loss = inbox.look
        tell(inbox, loss) if loss.is_a?(Loss)
      end
    end
  end

  # Runs what was given to on_lost, one after the other, in a thread that there is only if it is needed: not
  # that of the pump, since a callback may well acquire a lock.
  # @api private
  class Callbacks
    def initialize
      @queue = Thread::Queue.new
      @thread = nil
    end

    # Of one thread at a time.
    def call(handler, loss)
      @queue = Thread::Queue.new if @queue.closed?
      @thread = spawn(@queue) unless @thread&.alive?
      @queue << [handler, loss]
    end

    # What was called before still runs.
    def close
      @queue.close
    end

    private

    def spawn(queue)
      thread = Thread.new { Thread.handle_interrupt(Object => :immediate) { run(queue) } }
      thread.name = "portalock callbacks"
      thread
    end

    def run(queue)
      while (handler, loss = queue.pop)
        begin
          handler.call(loss)
        rescue StandardError, ScriptError => e
          warn "portalock: on_lost failed: #{e.full_message}"
        end
        # Or it would keep the lock alive, most likely, until there is something to do again.
        handler = nil
      end
    end
  end
end
