# frozen_string_literal: true

require "open3"

module Portalock
  # Finds the shared library.
  # @api private
  module Library
    # The name that programs ask for: it carries the version of the ABI.
    SONAME = RUBY_PLATFORM.include?("darwin") ? "libportalock.0.dylib" : "libportalock.so.0"
    PLAIN = RUBY_PLATFORM.include?("darwin") ? "libportalock.dylib" : "libportalock.so"

    class << self
      # @yieldparam path [String] what to try; has to raise LoadError if it cannot be loaded
      # @return [Object] what the block returned for the first that could be loaded
      # @raise [LoadError] naming all that were tried, and why each of them failed
      def find
        failures = []
        candidates.each do |path|
          return yield(path)
        rescue LoadError => e
          failures << "  #{path}: #{e.message.lines.first.to_s.strip}"
        end
        raise LoadError, complaint(failures)
      end

      # A library that is named in the environment is the only one tried: whoever names one wants to be
      # told if it is wrong.
      # @return [Array<String>]
      def candidates(env = ENV)
        named = env.fetch("PORTALOCK_LIBRARY", "")
        return [named] unless named.empty?

        (bundled + from_pkg_config + [SONAME, PLAIN]).uniq
      end

      private

      def bundled
        [PLAIN, SONAME].map { |name| File.join(__dir__, name) }.select { |path| File.exist?(path) }
      end

      def from_pkg_config
        words, _, status = Open3.capture3("pkg-config", "--variable=libdir", "portalock")
        folder = words.strip
        return [] if !status.success? || folder.empty?

        [SONAME, PLAIN].map { |name| File.join(folder, name) }
      rescue SystemCallError
        [] # There is no pkg-config.
      end

      def complaint(failures)
        <<~WORDS
          portalock: the shared library cannot be loaded. These were tried:
          #{failures.join("\n")}
          (in this order: $PORTALOCK_LIBRARY alone if it is set, #{__dir__}, pkg-config, the system's folders)
        WORDS
      end
    end
  end
end
