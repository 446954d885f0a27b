# frozen_string_literal: true

require_relative "helper"

# What goes when nobody holds it any more.
class GcTest < PortalockTest
  # In a frame of its own, and one more above, so that no machine stack remembers the objects.
  def forgotten(&block)
    Fiber.new do
      block.call
      nil
    end.resume
  end

  def collected
    eventually do
      GC.start
      yield
    end
  end

  def descriptors
    Dir.children("/proc/self/fd").size
  end

  def pumps
    Thread.list.count { |thread| thread.name == "portalock events" }
  end

  def test_a_forgotten_lock_is_released
    mine = client
    forgotten { 20.times { |i| mine.lock("#{lock_name}-#{i % 20}").acquire } }
    # One of them may be seen by a stack that has not been overwritten.
    collected { Array.new(20) { |i| server.members("#{lock_name}-#{i}") }.sum <= 2 }
  end

  def test_a_forgotten_client_takes_its_thread_and_descriptors_along
    collected { pumps <= 2 }
    threads = pumps
    files = descriptors
    forgotten { 10.times { |i| Portalock::Client.new(server.url).lock("#{lock_name}-#{i}").acquire } }
    collected { pumps <= threads + 1 && descriptors <= files + 4 }
  end

  def test_a_lock_keeps_its_client
    lock = held_elsewhere
    @clients.clear
    4.times { GC.start }
    assert lock.verify
    assert_raises(Portalock::Timeout) { client.lock(lock_name).acquire(timeout: 0.05) }
    lock.close
  end

  def test_a_callback_that_knows_its_lock_keeps_it_from_nothing
    mine = client
    forgotten do
      20.times do |i|
        lock = mine.lock("#{lock_name}-#{i}")
        lock.on_lost { lock.release }
        lock.acquire
      end
    end
    collected { Array.new(20) { |i| server.members("#{lock_name}-#{i}") }.sum <= 2 }
  end

  def test_compaction_mixes_nothing_up
    mine = client
    locks = Array.new(50) { |i| mine.lock("#{lock_name}-#{i}") }
    GC.compact
    GC.start
    told = Queue.new
    locks.each { |lock| lock.on_lost { told << lock } }
    GC.compact
    locks.each { |lock| lock.acquire(timeout: LONG) }
    server.cut("#{lock_name}-7")
    assert_same locks[7], told.pop
    assert(locks.each_with_index.all? { |lock, i| lock.held? == (i != 7) })
  rescue NotImplementedError
    skip "nothing is ever moved here"
  end

  def test_closing_a_client_ends_its_thread
    before = pump_threads
    mine = client
    mine.lock(lock_name).acquire
    thread, = pump_threads - before
    mine.close
    assert_same thread, thread.join(LONG)
  end

  def test_a_thread_that_was_killed_is_started_anew
    holder = held_elsewhere
    mine = client
    lock = mine.lock(lock_name)
    before = pump_threads
    thread = waiter(lock)
    (pump_threads - before).each(&:kill)
    assert_raises(Portalock::Cancelled) { thread.value }
    await_members(1)
    thread = waiter(lock) { acquire_at_last(lock) }
    holder.release
    assert_predicate thread.value, :held?
  end

  # The acquire before may be about to end.
  def acquire_at_last(lock)
    lock.acquire(timeout: nil)
  rescue Portalock::Active
    sleep 0.002
    retry
  end

  def pump_threads
    Thread.list.select { |thread| thread.name == "portalock events" }
  end

  # The thread must end with the process also if it was begun where everything is deferred.
  def test_a_process_ends_although_its_threads_wait
    child = ruby(<<~RUBY, server.url, lock_name)
      lock = Portalock::Client.new(ARGV[0]).lock(ARGV[1])
      Thread.handle_interrupt(Object => :never) { lock.acquire }
      lock.on_lost { sleep }
      2.times { Thread.new { Portalock::Client.new(ARGV[0]).lock(ARGV[1]).acquire(timeout: nil) } }
      sleep 0.2
      puts "over"
    RUBY
    took = seconds { assert_equal "over\n", child.read }
    child.close
    assert_predicate $?, :success?
    assert_operator took, :<, LONG
    await_members(0)
  end
end
