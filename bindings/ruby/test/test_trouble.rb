# frozen_string_literal: true

require_relative "helper"

# What programs do that they better did not, and orders that nobody expects.
class TroubleTest < PortalockTest
  Stop = Class.new(StandardError)

  def assert_free
    await_members(0)
    assert client.lock(lock_name).synchronize(timeout: LONG) { true }
  end

  # The deadline is that of the body: the lock was held, and is released.
  def test_a_timeout_within_the_block
    lock = client.lock(lock_name)
    20.times do
      assert_raises(Timeout::Error) { lock.synchronize { Timeout.timeout(0.005) { sleep } } }
      refute_predicate lock, :held?
    end
    assert_raises(Timeout::Error) { Timeout.timeout(0.05) { lock.synchronize { sleep } } }
    assert_free
  end

  # Around all of it, so that it comes anywhere: in the acquire, in the body, in the release.
  def test_a_timeout_at_any_moment
    lock = client.lock(lock_name)
    60.times do |i|
      Timeout.timeout(0.0002 * (1 + (i % 15))) { loop { lock.synchronize(timeout: LONG) { nil } } }
    rescue Timeout::Error
      refute_predicate lock, :held?
    end
    assert_free
  end

  # One interrupt at each step that is taken, also at those where none comes by itself most of the time.
  def test_an_interrupt_at_every_step
    lock = client.lock(lock_name)
    lock.synchronize { nil } # What is loaded or started once is, by now.
    steps = interrupted_at_every_step(-> { lock.synchronize(timeout: LONG) { nil } }) do
      refute_predicate lock, :held?
    end
    assert_operator steps, :>, 100
    # Here it may come just when the acquire has ended well.
    interrupted_at_every_step(-> { lock.acquire(timeout: LONG) }) { lock.release if lock.held? }
    assert_free
  end

  # @return how many there are
  def interrupted_at_every_step(work)
    (1..).each do |step|
      done = interrupted_at(step, &work)
      yield
      return step if done
    end
  end

  # Whether it took fewer steps than that.
  def interrupted_at(step)
    thread = Thread.current
    kinds = %i[line call return b_call b_return c_call c_return]
    trace = TracePoint.new(*kinds) do |point|
      next unless Thread.current == thread && point.path.include?("lib/portalock/")

      step -= 1
      thread.raise(Stop) if step.zero?
    end
    trace.enable { yield }
    step.positive?
  rescue Stop
    false
  end

  # Another acquire of a lock that is being acquired is refused, and does not end that.
  def test_whoever_is_refused_cancels_nothing
    holder = held_elsewhere
    lock = client.lock(lock_name)
    thread = waiter(lock) { lock.synchronize(timeout: LONG) { :served } }
    assert_raises(Portalock::Active) { lock.acquire }
    assert_raises(Portalock::Active) { lock.synchronize { flunk } }
    holder.release
    assert_equal :served, thread.join(LONG)&.value
    assert_free
  end

  # More than one interrupt, the second while the first is being dealt with.
  def test_interrupts_upon_interrupts
    holder = held_elsewhere
    lock = client.lock(lock_name)
    20.times do
      thread = waiter(lock) { lock.synchronize(timeout: nil) { flunk } }
      5.times { thread.raise(Stop) if thread.alive? }
      thread.kill
      thread.join rescue nil # rubocop:disable Style/RescueModifier
      await_members(1)
    end
    holder.release
    assert_free
  end

  def test_a_block_may_close_what_it_is_under
    mine = client
    lock = mine.lock(lock_name)
    assert_raises(Portalock::Active) { lock.synchronize { lock.synchronize { flunk } } }
    assert_raises(Portalock::Invalid) { lock.synchronize(&:close) }
    other = mine.lock(lock_name)
    assert_raises(Portalock::Invalid) { other.synchronize { mine.close } }
    assert_free
  end

  def test_a_callback_may_close_its_client
    mine = client
    lock = mine.lock(lock_name).acquire
    told = Queue.new
    lock.on_lost do
      mine.close
      told << lock.closed?
    end
    assert_equal 1, server.cut(lock_name)
    assert_equal true, told.pop
    assert_free
  end

  def test_closing_from_many_threads_while_others_wait
    15.times do |round|
      mine = client
      threads = Array.new(4) do
        lock = mine.lock(lock_name)
        Thread.new do
          loop { lock.synchronize(timeout: LONG) { nil } }
        rescue Portalock::Cancelled, Portalock::Invalid
          :closed
        end
      end
      sleep 0.0005 * round
      closers = Array.new(3) { Thread.new { mine.close } }
      assert_equal [:closed] * 4, threads.map { |thread| thread.join(LONG)&.value }
      closers.each(&:join)
    end
    assert_free
  end

  # Each object that can be collected is, at each allocation.
  def test_the_collector_may_run_at_any_moment
    lock = client.lock(lock_name)
    told = Queue.new
    lock.on_lost { |loss| told << loss }
    GC.stress = true
    3.times { lock.synchronize(timeout: LONG) { lock.holders } }
    lock.acquire(timeout: LONG)
    GC.stress = false
    server.cut(lock_name)
    assert_equal :disconnected, told.pop.reason
  ensure
    GC.stress = false
  end

  def test_signals_harm_nothing
    before = trap(:USR2) { nil }
    over = false
    sender = Thread.new do
      until over
        Process.kill(:USR2, Process.pid)
        sleep 0.0002
      end
    end
    locks = Array.new(2) { client.lock(lock_name) }
    threads = locks.map { |lock| Thread.new { 50.times { lock.synchronize(timeout: LONG, &:verify) } } }
    threads.each { |thread| assert thread.join(LONG) }
  ensure
    over = true
    sender&.join
    trap(:USR2, before || "DEFAULT")
  end

  # A holder would not be gone when its process is.
  def test_other_programs_inherit_nothing
    client.lock(lock_name).synchronize do
      list = IO.popen(%w[ls -l /proc/self/fd], &:read)
      refute_match(/socket:|eventfd/, list)
    end
  end

  def test_a_process_may_end_or_become_another_within_the_block
    [%(exit 3), %(abort), %(exit!), %(exec "true"), %(Process.kill(:KILL, $$); sleep)].each do |how|
      child = ruby("Portalock::Client.new(ARGV[0]).lock(ARGV[1]).synchronize { #{how} }", server.url, lock_name)
      assert_equal "", child.read.to_s.strip, how
      child.close
      await_members(0)
    end
  end
end
