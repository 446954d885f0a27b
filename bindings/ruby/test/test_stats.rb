# frozen_string_literal: true

require_relative "helper"

# What a client counts.
class StatsTest < PortalockTest
  def test_a_client_counts_what_happens
    holding = client
    waiting = client
    first = holding.lock(lock_name).acquire
    second = waiting.lock(lock_name)
    refute second.try_acquire
    thread = waiter(second) { |lock| lock.acquire(timeout: LONG) }
    sleep 0.05 # It is on the channel, and learns who else is.
    assert_equal [1, 0], waiting.stats.to_h.values_at(:waiting, :held)
    first.release
    thread.join

    stats = waiting.stats
    assert_equal [1, 1, 1, 1], stats.to_h.values_at(:acquires, :locked, :hand_overs, :waits)
    assert_equal [0, 1], stats.to_h.values_at(:waiting, :held)
    assert_operator stats.wait_percentiles[99], :<=, stats.wait_max
    assert_operator stats.wait_max, :<=, stats.wait_sum
    assert_equal [0.001, 300.0], [stats.wait_buckets.keys.first, stats.wait_buckets.keys.last]
    assert_equal 1, stats.wait_buckets[300.0]
    assert_predicate stats, :frozen?
    assert_equal [1, 0, 0], holding.stats.to_h.values_at(:acquires, :waits, :held)
  end

  def test_a_client_that_is_closed_counts_nothing
    gone = client
    gone.close
    assert_raises(Portalock::Invalid) { gone.stats }
  end

  def test_every_number_of_the_library_is_there
    names = (1..).lazy.map { |which| Portalock::Native.pl_stat_name(which) }.take_while(&:itself).to_a
    members = Portalock::Stats.members.map(&:to_s)
    assert_empty names.map { |name| name.delete_suffix("_us") } - members
  end
end
