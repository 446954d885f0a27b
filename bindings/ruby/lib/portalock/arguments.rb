# frozen_string_literal: true

module Portalock
  # Turns Ruby's arguments into the library's.
  # @api private
  module Arguments
    # The setters that take a yes or no.
    FLAGS = %i[
      fencing fail_when_locked disclose shared_connection tls_insecure_no_verification
    ].freeze
    # Those that take texts.
    TEXTS = %i[label tls_ca_file tls_client_certificate tls_server_name].freeze
    # Those that take a span.
    SPANS = %i[
      connect_timeout check_interval unavailable_timeout health_check_interval
    ].freeze

    class << self
      # @param seconds [Numeric]
      # @return [Integer] milliseconds, rounded up: what is more than nothing stays so
      # @raise [Invalid]
      def milliseconds(seconds)
        raise TypeError, "seconds expected, got #{seconds.inspect}" unless seconds.is_a?(Numeric)

        value = (seconds * 1000).ceil
        raise Invalid, "a span of time cannot be negative: #{seconds}" if value.negative?
        raise Invalid, "a span of time cannot be longer than a year" if value > 31_622_400_000

        value
      rescue FloatDomainError
        raise Invalid, "not a span of time: #{seconds}"
      end

      # As {milliseconds}, and nil for ever.
      def timeout(seconds)
        return Native::DEFAULT if seconds == :default
        return Native::WAIT_FOREVER if seconds.nil? || seconds == Float::INFINITY

        milliseconds(seconds)
      end

      # @param shared [Boolean, nil] nil for what the lock's options say
      def mode(shared)
        return Native::MODES[:none] if shared.nil?

        shared ? Native::MODES[:shared] : Native::MODES[:exclusive]
      end

      # A set of options for the time of the block.
      # @param kind [Symbol] :client or :lock
      # @param settings [Hash] those that are nil keep their defaults
      def options(kind, settings)
        pointer = Native.fetch(:"pl_#{kind}_options_new", :pointer)
        settings.compact.each { |name, value| set(kind, pointer, name, value) }
        yield pointer
      ensure
        Native.public_send(:"pl_#{kind}_options_free", pointer) if pointer
      end

      # Those settings of a client that are for TLS.
      # @return [Hash]
      def tls(tls_ca_file: nil, tls_client_certificate: nil, tls_server_name: nil,
              tls_insecure_no_verification: nil)
        if tls_client_certificate && Array(tls_client_certificate).size != 2
          raise Invalid, "a client certificate is two files: the certificate's and the key's"
        end

        { tls_ca_file: tls_ca_file, tls_client_certificate: tls_client_certificate,
          tls_server_name: tls_server_name, tls_insecure_no_verification: tls_insecure_no_verification }
      end

      # @return [String] what C can take
      # @raise [Invalid]
      def text(string, what)
        words = string.to_str.encode(Encoding::UTF_8)
        raise Invalid, "#{what} is not valid UTF-8" unless words.valid_encoding?
        raise Invalid, "#{what} must not contain a NUL" if words.include?("\0")

        words
      rescue EncodingError
        raise Invalid, "#{what} is not valid UTF-8"
      end

      private

      def set(kind, pointer, name, value)
        value = milliseconds(value) if SPANS.include?(name)
        value = value ? true : false if FLAGS.include?(name)
        values = Array(value)
        values = values.map { |word| text(word, "the #{name.to_s.tr("_", " ")}") } if TEXTS.include?(name)
        raise Invalid, "the pool size is out of range" if name == :pool_size && !value.between?(0, 1024)

        Native.call(:"pl_#{kind}_options_set_#{name}", pointer, *values)
      end
    end
  end
end
