# frozen_string_literal: true

module Portalock
  # The C library's functions, by their own names.
  # @api private
  module Native
    extend FFI::Library

    Library.find { |path| ffi_lib(path) }

    OK = 0
    CANCELLED = 6
    INTERNAL = 18

    WAIT_FOREVER = -1
    DEFAULT = -2

    EVENT_ACQUIRED = 1
    EVENT_LOST = 2
    EVENT_OVERFLOW = 5

    MODES = { none: 0, shared: 1, exclusive: 2 }.freeze

    # With its two functions NULL, always: a foreign thread must not call into Ruby, so the event queue is
    # told instead.
    class AcquiredCallback < FFI::Struct
      layout :context, :pointer, :call, :pointer, :drop, :pointer
    end
    NO_CALLBACK = AcquiredCallback.new

    # One member of a lock's channel, as the library describes it.
    class HolderRecord < FFI::Struct
      layout :id, :string, :mode, :int32, :wants, :int32, :state, :int32, :elected, :int32,
             :legacy, :bool, :foreign, :bool, :host, :string, :label, :string, :pid, :int64,
             :since_ms, :int64
    end

    # Those that block release the GVL.
    def self.fallible(name, arguments, **options)
      attach_function name, arguments + [:pointer], :int32, **options
    end
    private_class_method :fallible

    attach_function :pl_version, [], :string
    attach_function :pl_error_status, [:pointer], :int32
    attach_function :pl_error_message, [:pointer], :string
    attach_function :pl_error_retryable, [:pointer], :bool
    attach_function :pl_error_free, [:pointer], :void

    fallible :pl_client_new, %i[string pointer pointer]
    fallible :pl_client_ping, %i[pointer int64 pointer], blocking: true
    fallible :pl_client_event_fd, %i[pointer pointer]
    fallible :pl_client_next_event, %i[pointer int64 pointer]
    attach_function :pl_client_free, [:pointer], :void
    fallible :pl_client_options_new, %i[pointer]
    fallible :pl_client_options_set_connect_timeout, %i[pointer int64]
    fallible :pl_client_options_set_pool_size, %i[pointer uint32]
    fallible :pl_client_options_set_shared_connection, %i[pointer bool]
    fallible :pl_client_options_set_tls_ca_file, %i[pointer string]
    fallible :pl_client_options_set_tls_client_certificate, %i[pointer string string]
    fallible :pl_client_options_set_tls_server_name, %i[pointer string]
    fallible :pl_client_options_set_tls_insecure_no_verification, %i[pointer bool]
    attach_function :pl_client_options_free, [:pointer], :void

    attach_function :pl_event_type_of, [:pointer], :int32
    attach_function :pl_event_lock, [:pointer], :pointer
    attach_function :pl_event_status, [:pointer], :int32
    attach_function :pl_event_loss_reason, [:pointer], :int32
    attach_function :pl_event_message, [:pointer], :string
    attach_function :pl_event_free, [:pointer], :void

    fallible :pl_lock_new, %i[pointer string pointer pointer]
    fallible :pl_lock_acquire_start, [:pointer, :int32, :int64, AcquiredCallback.by_value]
    fallible :pl_lock_acquire_begin, %i[pointer int32 int64 pointer], blocking: true
    fallible :pl_lock_release, %i[pointer]
    fallible :pl_lock_release_wait, %i[pointer int64], blocking: true
    attach_function :pl_lock_cancel, [:pointer], :void
    attach_function :pl_lock_is_held, [:pointer], :bool
    fallible :pl_lock_verify, %i[pointer int64], blocking: true
    attach_function :pl_lock_verified_age, [:pointer], :int64
    fallible :pl_lock_fencing_token, %i[pointer pointer]
    fallible :pl_lock_holder_id, %i[pointer pointer size_t]
    attach_function :pl_lock_free, [:pointer], :void
    fallible :pl_lock_options_new, %i[pointer]
    fallible :pl_lock_options_set_mode, %i[pointer int32]
    fallible :pl_lock_options_set_timeout, %i[pointer int64]
    fallible :pl_lock_options_set_check_interval, %i[pointer int64]
    fallible :pl_lock_options_set_unavailable_timeout, %i[pointer int64]
    fallible :pl_lock_options_set_health_check_interval, %i[pointer int64]
    fallible :pl_lock_options_set_fencing, %i[pointer bool]
    fallible :pl_lock_options_set_fail_when_locked, %i[pointer bool]
    fallible :pl_lock_options_set_label, %i[pointer string]
    fallible :pl_lock_options_set_disclose, %i[pointer bool]
    attach_function :pl_lock_options_free, [:pointer], :void

    fallible :pl_probe_holders, %i[pointer string int64 pointer], blocking: true
    attach_function :pl_holders_count, [:pointer], :size_t
    attach_function :pl_holders_at, %i[pointer size_t], HolderRecord.by_ref
    attach_function :pl_holders_free, [:pointer], :void

    fallible :pl_client_stats, %i[pointer pointer]
    attach_function :pl_stats_value, %i[pointer int32], :uint64
    attach_function :pl_stat_name, [:int32], :string
    attach_function :pl_stats_wait_percentile_us, %i[pointer double], :int64
    attach_function :pl_stats_wait_buckets, [:pointer], :size_t
    attach_function :pl_stats_wait_bound_us, %i[pointer size_t], :int64
    attach_function :pl_stats_wait_bucket, %i[pointer size_t], :uint64
    attach_function :pl_stats_free, [:pointer], :void

    class << self
      # Calls a function that can fail.
      # @raise [Error] what it says, unless it returns OK
      def call(function, *arguments)
        failure = attempt(function, *arguments)
        raise failure if failure
      end

      # @yieldparam status [Integer] before a signal could interrupt
      # @return [Error, nil]
      def attempt(function, *arguments)
        out = FFI::MemoryPointer.new(:pointer)
        status = public_send(function, *arguments, out)
        yield status if block_given?
        status == OK ? nil : error(status, out.read_pointer)
      end

      # Calls a function that writes one value.
      # @return [Object] the value
      def fetch(function, type, *arguments)
        out = FFI::MemoryPointer.new(type)
        call(function, *arguments, out)
        out.get(type, 0)
      end

      # A call that blocks goes to a thread of its own: the caller can then be interrupted at once, also
      # by what a blocking call knows nothing of, and a fiber scheduler goes on meanwhile.
      def aside
        outcome = Thread.new do
          yield
        rescue Error => e
          e
        end.value
        return outcome unless outcome.is_a?(Error)

        outcome.set_backtrace(caller)
        raise outcome
      end

      # The library's text is UTF-8; FFI hands it out without saying so.
      def text(string)
        string&.dup&.force_encoding(Encoding::UTF_8)
      end

      private

      def error(status, pointer)
        message = text(pl_error_message(pointer))
        Error.for(status, message, retryable: pl_error_retryable(pointer))
      ensure
        pl_error_free(pointer)
      end
    end
  end
end
