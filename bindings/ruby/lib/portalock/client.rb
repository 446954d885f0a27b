# frozen_string_literal: true

module Portalock
  # A Redis server to hold locks on: its address, the login, and warm connections to it. Every method may be
  # called from any thread or fiber at any time.
  #
  # After a fork the clients of the parent raise {Forked} in the child; make one of its own there.
  class Client
    # Nothing is connected yet.
    #
    # @param url [String] +redis://[user[:password]@]host[:port][/db]+, with percent-encoded specials, or
    #   +unix:///path[?db=N&user=…&pass=…]+, or one of the others that docs/connecting.md lists:
    #   rediss, redis-sentinel, redis-cluster, and memory for tests
    # @param connect_timeout [Numeric, nil] how long to connect and log in may take, and each answer of the
    #   server, in seconds; 5 unless set
    # @param pool_size [Integer, nil] how many unused connections are kept for later: 0 to 1024; 8 unless set
    # @param shared_connection [Boolean, nil] whether all locks of the client live on one connection, whose loss
    #   is the loss of them all; false unless set
    # @param tls_ca_file [String, nil] the PEM file of the authorities that are trusted with a +rediss://+ URL;
    #   the system's unless set
    # @param tls_client_certificate [Array<String>, nil] the PEM files of the certificate and of its private key
    #   that are shown to a server that asks for them
    # @param tls_server_name [String, nil] whom the server's certificate has to be for; the URL's host unless set
    # @param tls_insecure_no_verification [Boolean, nil] accept any certificate: for trials only
    # @raise [Invalid] an argument is none
    # @raise [Unsupported] an unknown scheme
    def initialize(url, connect_timeout: nil, pool_size: nil, shared_connection: nil, **tls)
      url = Arguments.text(url, "the URL")
      settings = { connect_timeout: connect_timeout, pool_size: pool_size, shared_connection: shared_connection }
      settings.update(Arguments.tls(**tls))
      pointer = Arguments.options(:client, settings) do |options|
        Native.fetch(:pl_client_new, :pointer, url, options)
      end
      @handle = Handle.new(pointer, :pl_client_free)
      @pump = Pump.new(pointer)
    end

    # Names a lock. Nothing is sent. All times are seconds; what is nil keeps its default.
    #
    # @param name [String] the channel: 1 to 1024 bytes of UTF-8
    # @param shared [Boolean] whether acquires that do not say are shared
    # @param timeout [Numeric, nil, :default] how long acquires that do not say wait: 0 for one attempt, nil
    #   without a bound; 5 unless set
    # @param fail_when_locked [Boolean] give up at once if somebody else holds it
    # @param fencing [Boolean] draw a token with every exclusive grant: {Lock#fencing_token}
    # @param label [String] at most 256 bytes, shown to whoever asks who holds
    # @param disclose [Boolean] show host, process, label and time to whoever asks; true unless set
    # @param check_interval [Numeric] how long to step aside for portalocker; 0.25 unless set
    # @param unavailable_timeout [Numeric] how long a member may be silent before it is taken for dead; 1
    #   unless set
    # @param health_check_interval [Numeric] how often a held lock is checked: 0.1 or more, 0 for never; 10
    #   unless set
    # @return [Lock]
    # @raise [Invalid] an argument is out of range, or this is closed
    # @raise [Forked]
    def lock(name, shared: nil, timeout: :default, fail_when_locked: nil, fencing: nil, label: nil,
             disclose: nil, check_interval: nil, unavailable_timeout: nil, health_check_interval: nil)
      Lock.new(
        self, @pump, name,
        mode: (Arguments.mode(shared) unless shared.nil?),
        timeout: (Arguments.timeout(timeout) unless timeout == :default),
        fail_when_locked: fail_when_locked, fencing: fencing, label: label, disclose: disclose,
        check_interval: check_interval, unavailable_timeout: unavailable_timeout,
        health_check_interval: health_check_interval
      )
    end

    # Connects, logs in and waits for an answer, to find a wrong address or login early.
    #
    # @param timeout [Numeric] in seconds
    # @return [Float] the round-trip time in seconds
    # @raise [ConnectionError] what keeps the server from being used
    # @raise [Forked, Invalid]
    def ping(timeout: 5)
      client = pointer
      timeout = Arguments.milliseconds(timeout)
      Native.aside { Native.fetch(:pl_client_ping, :int64, client, timeout) } / 1_000_000.0
    end

    # Asks who is on a lock's channel: holders first, then waiters in their order. Waits.
    #
    # @param name [String] the lock's name
    # @param timeout [Numeric] how long to wait for answers, in seconds
    # @return [Array<Holder>]
    # @raise [Unclear] somebody is there who does not answer, which is not the same as nobody
    # @raise [ConnectionError, Forked, Invalid]
    def holders(name, timeout: 1)
      Holder.probe(pointer, name, timeout)
    end

    # What it has done so far, with its locks. Sends nothing and does not wait.
    #
    # @return [Stats]
    # @raise [Forked, Invalid]
    def stats
      Stats.read(pointer)
    end

    # Closes all locks of this client, and the client. May be called again. Does nothing in a child of the
    # process that made it.
    #
    # @return [nil]
    def close
      return if @handle.forked?

      @pump.inboxes.each(&:close)
      @handle.close
    end

    # @return [Boolean]
    def closed?
      @handle.closed?
    end

    # Says nothing of the URL, which may hold a password.
    # @return [String]
    def inspect
      "#<#{self.class}#{' closed' if closed?}>"
    end

    # @api private
    def start_pump
      @pump.start(@handle)
    end

    # @api private
    def pointer
      @handle.pointer
    end
  end
end
