# frozen_string_literal: true

require_relative "helper"

# What becomes of events when they come faster than they are fetched.
class EventsTest < PortalockTest
  # More than the library keeps.
  MANY = 4200

  def setup
    super
    @client = client
    @client.lock("#{lock_name}-first").synchronize { nil }
    @pump = @client.instance_variable_get(:@pump)
  end

  # The pump's thread fetches nothing for the time of the block.
  def without_events
    stopped = true
    @pump.define_singleton_method(:drain) do
      sleep 0.005 while stopped
      super()
    end
    yield
  ensure
    stopped = false
  end

  # One event each, and no Ruby that would wait for it. When the lock that is returned goes, they go too.
  def flood
    lock = @client.lock("#{lock_name}-flood")
    pointer = lock.instance_variable_get(:@handle).pointer
    native = Portalock::Native
    MANY.times do
      failure = native.attempt(:pl_lock_acquire_start, pointer, 2, 5000, native::NO_CALLBACK)
      raise failure if failure

      Thread.pass until native.pl_lock_is_held(pointer)
      native.call(:pl_lock_release, pointer)
    end
    lock
  end

  def test_what_was_not_kept_is_found_out
    holder = held_elsewhere
    ours = @client.lock(lock_name)
    given_up = @client.lock(lock_name)
    lost = @client.lock("#{lock_name}-lost").acquire
    told = Queue.new
    lost.on_lost { |loss| told << loss }
    granted = waiter(ours)
    cancelled = waiter(given_up)
    without_events do
      @flooded = flood
      given_up.cancel
      server.cut("#{lock_name}-lost")
      holder.release
      eventually { ours.held? && !lost.held? }
    end
    assert_same ours, granted.value
    assert_predicate ours, :held?
    assert_raises(Portalock::Error) { cancelled.value }
    assert_equal :unknown, told.pop.reason
    assert_raises(Portalock::Lost) { lost.release }
  end

  def test_a_burst_of_events_is_told_one_by_one
    locks = Array.new(200) { |i| @client.lock("#{lock_name}-#{i}") }
    told = Queue.new
    locks.each { |lock| lock.on_lost { told << lock } }
    locks.map { |lock| Thread.new { lock.acquire } }.each(&:join)
    lines = server.run("CLIENT", "LIST").lines.grep(/ name=#{lock_name}-\d+-lock-/)
    lines.each { |line| server.run("CLIENT", "KILL", "ID", line[/\bid=(\d+)/, 1]) }
    assert_equal locks.size, Array.new(locks.size) { told.pop }.uniq.size
  end
end
