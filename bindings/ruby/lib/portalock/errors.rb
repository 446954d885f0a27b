# frozen_string_literal: true

module Portalock
  # What all errors of this library have in common.
  class Error < StandardError
    # @return [Symbol] what went wrong, such as +:timeout+: the name of the C library's status
    attr_reader :status

    def initialize(message = nil, status: self.class.status, retryable: nil)
      super(message)
      @status = status
      @retryable = retryable.nil? ? RETRYABLE.include?(status) : retryable
    end

    # @return [Boolean] whether the same call can succeed later although nothing is changed
    def retryable?
      @retryable
    end

    class << self
      # @return [Symbol] the status of errors of this class
      attr_reader :status

      # @api private
      def for(status, message, retryable: nil)
        name = STATUSES.fetch(status, :unknown)
        CLASSES.fetch(name, Error).new(message, status: name, retryable: retryable)
      end
    end
  end

  # The time given for waiting has passed while others held the lock, or before an answer came.
  class Timeout < Error; end
  # Somebody else holds the lock, and the caller did not want to wait.
  class Locked < Error; end
  # This lock object is being acquired or is held already: locks are not reentrant.
  class Active < Error; end
  # There is nothing to release, or no such thing of a lock that is not held.
  class NotHeld < Error; end
  # The lock was held and has been lost.
  class Lost < Error; end
  # The acquire was cancelled from elsewhere.
  class Cancelled < Error; end
  # An argument is out of range, or the object was closed before.
  class Invalid < Error; end
  # The object was made before a fork, by the parent of this process.
  class Forked < Error; end
  # The library was built without this, or does not know it.
  class Unsupported < Error; end
  # A fault of the library itself.
  class Internal < Error; end
  # Somebody is there and does not answer: what was asked cannot be told.
  class Unclear < Error; end
  # The key of the fencing counter cannot be counted up.
  class FenceError < Error; end

  # The server cannot be used.
  class ConnectionError < Error; end
  # Nothing listens at the server's address.
  class Refused < ConnectionError; end
  # The server's address leads nowhere: unknown host, no such socket, no route.
  class Unreachable < ConnectionError; end
  # The server does not answer in time.
  class Unresponsive < ConnectionError; end
  # The server does not accept the user or the password.
  class AuthError < ConnectionError; end
  # The user lacks the permission for a command, channel or key.
  class Denied < ConnectionError; end
  # Whatever answers at the server's address is no Redis server.
  class NotRedis < ConnectionError; end
  # The server answered with an error.
  class ServerError < ConnectionError; end
  # TLS with the server cannot be agreed on: a certificate, a version, or no TLS at all.
  class TLSError < ConnectionError; end
  # The connection ended.
  class Disconnected < ConnectionError; end

  class Error
    # By the numbers of the C library, which are never reused.
    STATUSES = {
      1 => :timeout, 2 => :locked, 3 => :active, 4 => :not_held, 5 => :lost, 6 => :cancelled,
      7 => :invalid, 8 => :refused, 9 => :unreachable, 10 => :unresponsive, 11 => :auth,
      12 => :denied, 13 => :not_redis, 14 => :server, 15 => :disconnected, 16 => :forked,
      17 => :unsupported, 18 => :internal, 19 => :unclear, 20 => :fence, 21 => :tls
    }.freeze

    CLASSES = {
      timeout: Timeout, locked: Locked, active: Active, not_held: NotHeld, lost: Lost,
      cancelled: Cancelled, invalid: Invalid, refused: Refused, unreachable: Unreachable,
      unresponsive: Unresponsive, auth: AuthError, denied: Denied, not_redis: NotRedis,
      server: ServerError, disconnected: Disconnected, forked: Forked, unsupported: Unsupported,
      internal: Internal, unclear: Unclear, fence: FenceError, tls: TLSError
    }.freeze

    # What an event tells has a status and no word about trying again.
    RETRYABLE = %i[
      timeout locked active lost refused unreachable unresponsive server disconnected unclear
    ].freeze

    CLASSES.each { |status, error| error.instance_variable_set(:@status, status) }
    private_constant :STATUSES, :CLASSES, :RETRYABLE
  end
end
