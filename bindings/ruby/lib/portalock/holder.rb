# frozen_string_literal: true

module Portalock
  # One member of a lock's channel, as it describes itself.
  #
  # +id+ is 32 hex digits, or +legacy-N+ for a member that sends none; +mode+ is what it holds and +wants+
  # what it wants or holds (+:shared+, +:exclusive+, or nil); +state+ is +:waiting+, +:held+ or +:leaving+;
  # +host+, +pid+ and +label+ are nil if it does not say; +since+ is a Time by its own clock, or nil. A
  # +foreign+ member knows nothing of the queue, a +legacy+ one not even of records.
  Holder = Struct.new(:id, :mode, :wants, :state, :host, :pid, :label, :since, :foreign, :legacy,
                      keyword_init: true) do
    # @return [Boolean] whether it holds the lock
    def held?
      state == :held
    end

    # @return [Boolean] whether it waits for the lock
    def waiting?
      state == :waiting
    end
  end

  # How {Holder}s come out of the library.
  # @api private
  class Holder
    STATES = { 1 => :waiting, 2 => :held, 3 => :leaving }.freeze
    HOLDS = { 1 => :shared, 2 => :exclusive }.freeze
    private_constant :STATES, :HOLDS

    class << self
      # Who is on a channel. Asked from a thread of its own, so that the caller can be interrupted.
      def probe(client, name, seconds)
        timeout = Arguments.milliseconds(seconds)
        name = Arguments.text(name, "the name")
        Native.aside do
          list = Native.fetch(:pl_probe_holders, :pointer, client, name, timeout)
          begin
            Array.new(Native.pl_holders_count(list)) { |i| from(Native.pl_holders_at(list, i)) }
          ensure
            Native.pl_holders_free(list)
          end
        end
      end

      private

      def from(record)
        pid = record[:pid]
        since = record[:since_ms]
        new(
          id: Native.text(record[:id]), mode: HOLDS[record[:mode]], wants: HOLDS[record[:wants]],
          state: STATES[record[:state]], host: Native.text(record[:host]),
          label: Native.text(record[:label]), pid: (pid unless pid.negative?),
          since: (Time.at(0, since, :millisecond) unless since.negative?),
          foreign: record[:foreign], legacy: record[:legacy]
        ).freeze
      end
    end
  end

  # That a held lock was lost, and why: +:disconnected+, +:unsubscribed+, +:protocol+, +:unresponsive+,
  # +:internal+, +:demoted+, or +:unknown+. +message+ is for people.
  Loss = Struct.new(:reason, :message) do
    # @return [String]
    def to_s
      message
    end
  end

  # @api private
  class Loss
    REASONS = {
      1 => :disconnected, 2 => :unsubscribed, 3 => :protocol, 4 => :unresponsive, 5 => :internal,
      6 => :demoted
    }.freeze
    private_constant :REASONS

    def self.for(reason, message)
      new(REASONS.fetch(reason, :unknown), message).freeze
    end
  end
end
