# frozen_string_literal: true

require_relative "helper"

# The smallest scheduler that does what Ruby asks of one: fibers that wait for IO, for a time, or to be
# woken, also by another thread.
class TinyScheduler
  def initialize
    @readable = {}
    @writable = {}
    @timers = {}
    @woken = Thread::Queue.new
    # Nobody else keeps a fiber that waits to be woken from being garbage collected.
    @blocked = {}
    @wake, @waker = IO.pipe
  end

  def fiber(&block)
    Fiber.new(blocking: false, &block).tap(&:resume)
  end

  def run
    step until @readable.empty? && @writable.empty? && @timers.empty? && @blocked.empty?
  end

  def close
    run
    [@wake, @waker].each(&:close)
  end

  def io_wait(io, events, timeout = nil)
    fiber = Fiber.current
    @readable[io] = fiber if events & IO::READABLE != 0
    @writable[io] = fiber if events & IO::WRITABLE != 0
    @timers[fiber] = now + timeout if timeout
    Fiber.yield || false
  ensure
    @readable.delete_if { |_, waiting| waiting.equal?(fiber) }
    @writable.delete_if { |_, waiting| waiting.equal?(fiber) }
    @timers.delete(fiber)
  end

  def kernel_sleep(duration = nil)
    block(:sleep, duration)
    true
  end

  def block(_blocker, timeout = nil)
    fiber = Fiber.current
    @timers[fiber] = now + timeout if timeout
    @blocked[fiber] = true
    Fiber.yield || false
  ensure
    @blocked.delete(fiber)
    @timers.delete(fiber)
  end

  # May come from any thread.
  def unblock(_blocker, fiber)
    @woken << fiber
    @waker.write_nonblock(".")
  rescue IO::WaitWritable
    nil # It is awake.
  end

  # Has something raised in a fiber that waits, as schedulers do for a timeout.
  def interrupt(fiber, error)
    fiber.raise(error)
  end

  private

  def now
    Process.clock_gettime(Process::CLOCK_MONOTONIC)
  end

  def step
    first = @timers.values.min
    patience = first && [first - now, 0].max
    readable, writable = IO.select([@wake, *@readable.keys], @writable.keys, [], patience)
    @wake.read_nonblock(4096, exception: false) if readable&.delete(@wake)
    readable&.each { |io| @readable[io]&.resume(IO::READABLE) }
    writable&.each { |io| @writable[io]&.resume(IO::WRITABLE) }
    @woken.pop.then { |fiber| fiber.resume(true) if fiber.alive? } until @woken.empty?
    @timers.select { |_, time| time <= now }.each_key { |fiber| fiber.resume(false) if fiber.alive? }
  end
end

# Waiting stops the fiber that waits, and no other.
class FibersTest < PortalockTest
  Stop = Class.new(StandardError)

  def with_scheduler
    Thread.new do
      scheduler = TinyScheduler.new
      Fiber.set_scheduler(scheduler)
      yield scheduler
    end.join(LONG) or flunk "it does not end"
  end

  def test_fibers_of_one_thread_hand_the_lock_over
    mine = client
    inside = 0
    order = []
    with_scheduler do
      5.times do |i|
        Fiber.schedule do
          mine.lock(lock_name).synchronize(timeout: LONG) do
            assert_equal 1, inside += 1
            order << i
            sleep 0.01
            inside -= 1
          end
        end
      end
    end
    assert_equal [0, 1, 2, 3, 4], order
    await_members(0)
  end

  def test_other_fibers_run_while_one_waits
    holder = held_elsewhere
    lock = client.lock(lock_name)
    ticks = 0
    ticks_at_grant = nil
    with_scheduler do
      Fiber.schedule do
        lock.acquire(timeout: LONG)
        ticks_at_grant = ticks
      end
      Fiber.schedule do
        10.times do
          sleep 0.01
          ticks += 1
        end
        holder.release
      end
    end
    assert_equal 10, ticks_at_grant
    assert_predicate lock, :held?
  end

  def test_questions_stop_no_other_fiber
    private = RedisServer.new
    lock = client(private.url).lock("x").acquire
    ticks = 0
    Process.kill(:STOP, private.pid)
    with_scheduler do
      Fiber.schedule { assert_raises(Portalock::Timeout) { lock.verify(timeout: 0.3) } }
      Fiber.schedule do
        5.times do
          sleep 0.01
          ticks += 1
        end
        assert_predicate lock, :held?
      end
    end
    assert_equal 5, ticks
  ensure
    Process.kill(:CONT, private.pid)
    private.stop
  end

  def test_a_fiber_that_is_interrupted_leaves_nobody_behind
    held_elsewhere
    lock = client.lock(lock_name)
    error = nil
    with_scheduler do |scheduler|
      fiber = Fiber.schedule do
        lock.acquire(timeout: nil)
      rescue Stop => e
        error = e
      end
      Fiber.schedule do
        sleep 0.05
        scheduler.interrupt(fiber, Stop)
      end
    end
    assert_kind_of Stop, error
    await_members(1)
  end

  def test_threads_and_fibers_wait_on_one_client_together
    mine = client
    count = 0
    add = lambda do |_|
      mine.lock(lock_name).synchronize(timeout: LONG) do
        seen = count
        sleep 0.002
        count = seen + 1
      end
    end
    threads = Array.new(3) { Thread.new { 5.times(&add) } }
    with_scheduler { 3.times { Fiber.schedule { 5.times(&add) } } }
    threads.each(&:join)
    assert_equal 30, count
  end
end
