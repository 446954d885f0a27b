# frozen_string_literal: true

module Portalock
  # What a client has done since it was made, as of one moment.
  #
  # Of the acquires, +acquires+ were granted, +locked+ gave up at once, +timeouts+ ran out of time, +cancelled+
  # were cancelled, and +failed+ ended for another reason. +waits+ had to wait: somebody came first, or did not
  # answer. +hand_overs+ of those were let in when somebody left. +losses+ are held locks that were lost, +reaps+
  # connections of silent members that were ended, +health_checks+ messages sent to see whether they come back,
  # +connections+ those that were made. +held+ locks there are now, and +waiting+ acquires are under way.
  #
  # Spans are seconds: +wait_sum+, +wait_max+; +wait_percentiles+ by 50, 90 and 99 percent, 1 % at most above the
  # true value; +wait_buckets+ has by bound how many waits did not exceed it, as Prometheus wants it, without the
  # last, which is +waits+.
  Stats = Struct.new(:acquires, :locked, :timeouts, :cancelled, :failed, :waits, :hand_overs, :losses, :reaps,
                     :health_checks, :connections, :held, :waiting, :wait_sum, :wait_max, :wait_percentiles,
                     :wait_buckets, keyword_init: true)

  # How {Stats} come out of the library.
  # @api private
  class Stats
    # By the numbers of the C interface, from 1 on.
    COUNTS = %i[acquires locked timeouts cancelled failed waits hand_overs losses reaps health_checks
                connections held waiting].freeze
    WAIT_SUM_US = 14
    WAIT_MAX_US = 15
    private_constant :COUNTS, :WAIT_SUM_US, :WAIT_MAX_US

    class << self
      def read(client)
        raw = Native.fetch(:pl_client_stats, :pointer, client)
        begin
          from(raw)
        ensure
          Native.pl_stats_free(raw)
        end
      end

      private

      def from(raw)
        counts = COUNTS.each_with_index.to_h { |name, at| [name, Native.pl_stats_value(raw, at + 1)] }
        percentiles = [50, 90, 99].to_h { |at| [at, seconds(Native.pl_stats_wait_percentile_us(raw, at))] }
        new(
          **counts,
          wait_sum: seconds(Native.pl_stats_value(raw, WAIT_SUM_US)),
          wait_max: seconds(Native.pl_stats_value(raw, WAIT_MAX_US)),
          wait_percentiles: percentiles.freeze, wait_buckets: buckets(raw).freeze
        ).freeze
      end

      def buckets(raw)
        Array.new(Native.pl_stats_wait_buckets(raw)) do |at|
          [seconds(Native.pl_stats_wait_bound_us(raw, at)), Native.pl_stats_wait_bucket(raw, at)]
        end.to_h
      end

      def seconds(microseconds)
        microseconds / 1_000_000.0
      end
    end
  end
end
