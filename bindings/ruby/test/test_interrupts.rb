# frozen_string_literal: true

require_relative "helper"

# Waits end at once, whatever ends them, and leave nobody behind on the channel.
class InterruptsTest < PortalockTest
  Stop = Class.new(StandardError)

  # Far less than any timeout of the library, far more than a busy machine needs.
  SOON = 5

  def setup
    super
    @holder = held_elsewhere
    @lock = client.lock(lock_name)
  end

  def interrupted(thread)
    took = seconds do
      yield thread
      begin
        thread.join
      rescue StandardError
        nil # What it is, the test asks itself.
      end
    end
    assert_operator took, :<, SOON
    await_members(1)
  end

  def assert_as_good_as_new
    @holder.release
    assert @lock.acquire(timeout: LONG).held?
  end

  def test_thread_kill
    interrupted(waiter(@lock), &:kill)
    assert_as_good_as_new
  end

  def test_thread_raise
    thread = waiter(@lock)
    interrupted(thread) { thread.raise(Stop) }
    assert_raises(Stop) { thread.value }
    assert_as_good_as_new
  end

  def test_timeout
    took = seconds do
      assert_raises(Timeout::Error) { Timeout.timeout(0.1) { @lock.acquire(timeout: nil) } }
    end
    assert_operator took, :<, SOON
    assert_equal 1, server.members(lock_name)
    assert_as_good_as_new
  end

  def test_synchronize_is_interrupted_too
    thread = waiter(@lock) { @lock.synchronize(timeout: nil) { flunk } }
    interrupted(thread) { thread.raise(Stop) }
    assert_raises(Stop) { thread.value }
    assert_as_good_as_new
  end

  def test_a_block_that_is_killed_releases
    @holder.release
    thread = Thread.new { @lock.synchronize { sleep } }
    eventually { @lock.held? }
    interrupted_from_one(thread)
    refute_predicate @lock, :held?
  end

  def interrupted_from_one(thread)
    thread.kill
    assert_operator(seconds { thread.join }, :<, SOON)
    await_members(0)
  end

  def test_a_server_that_does_not_answer_delays_no_interrupt
    private = RedisServer.new
    lock = client(private.url, connect_timeout: 60).lock("x", unavailable_timeout: 60)
    lock.synchronize { nil }
    Process.kill(:STOP, private.pid)
    thread = Thread.new { lock.acquire(timeout: nil) }
    sleep 0.2
    thread.kill
    assert_operator(seconds { thread.join }, :<, SOON)
  ensure
    Process.kill(:CONT, private.pid)
    private.stop
  end

  def test_verification_and_questions_are_interrupted_too
    private = RedisServer.new
    mine = client(private.url, connect_timeout: 60)
    lock = mine.lock("x", health_check_interval: 0).acquire
    Process.kill(:STOP, private.pid)
    %i[verify holders ping].each do |what|
      wait = -> { (what == :ping ? mine : lock).public_send(what, timeout: 60) }
      thread = Thread.new(&wait)
      sleep 0.1
      thread.kill
      assert_operator(seconds { thread.join }, :<, SOON)
    end
  ensure
    Process.kill(:CONT, private.pid)
    private.stop
  end

  CTRL_C = <<~RUBY
    client = Portalock::Client.new(ARGV[0])
    lock = client.lock(ARGV[1])
    begin
      lock.acquire(timeout: nil)
    rescue Interrupt
      puts "interrupted"
      $stdout.flush
      $stdin.gets # The process lives on, and has left the channel all the same.
      puts lock.acquire(timeout: 20).held?
    end
  RUBY

  def test_ctrl_c
    child = ruby(CTRL_C, server.url, lock_name)
    await_members(2)
    took = seconds do
      Process.kill(:INT, child.pid)
      assert_equal "interrupted\n", child.gets
    end
    assert_operator took, :<, SOON
    await_members(1)
    @holder.release
    child.puts
    assert_equal "true\n", child.read
  ensure
    child&.close
  end

  MANY_CTRL_C = <<~RUBY
    client = Portalock::Client.new(ARGV[0])
    lock = client.lock(ARGV[1])
    random = Random.new
    200.times do
      other = Thread.new { sleep(random.rand * 0.004); Process.kill(:INT, Process.pid) }
      begin
        lock.acquire(timeout: nil)
      rescue Interrupt
        print "."
      end
      other.join
    rescue Interrupt
      print "," # It came later.
      other.join
    ensure
      lock.release if lock.held?
    end
    puts
    $stdout.flush
    $stdin.gets
  RUBY

  # A signal's default action is not kept off by Thread.handle_interrupt. It comes at any moment of a start, and
  # leaves nobody behind, whether the lock is waited for or free.
  def test_ctrl_c_at_any_moment_of_a_start
    [1, 0].each do |others|
      child = ruby(MANY_CTRL_C, server.url, lock_name)
      assert_match(/\A[.,]{200}\n\z/, child.gets)
      await_members(others)
      child.puts
      child.close
      @holder.release if @holder.held?
    end
  end

  def test_ctrl_c_ends_a_program_that_does_not_expect_it
    child = ruby("Portalock::Client.new(ARGV[0]).lock(ARGV[1]).acquire(timeout: nil)", server.url, lock_name)
    await_members(2)
    Process.kill(:INT, child.pid)
    assert_operator(seconds { child.read }, :<, SOON)
    child.close
    assert_equal Signal.list["INT"], $?.termsig
    await_members(1)
  end

  def test_other_threads_run_while_one_waits
    thread = waiter(@lock)
    count = 0
    until_then = now + 0.2
    count += 1 while now < until_then
    assert_operator count, :>, 1000
    assert_predicate thread, :alive?
    assert_equal "sleep", thread.status
    thread.kill.join
  end

  def test_threads_that_defer_interrupts_are_not_interrupted
    thread = waiter(@lock) do
      Thread.handle_interrupt(Stop => :never) { @lock.acquire(timeout: nil) }
      flunk
    end
    thread.raise(Stop)
    assert_nil thread.join(0.2)
    @holder.release
    assert_raises(Stop) { thread.value }
    assert_predicate @lock, :held?
  end

  # Interrupted at any moment, also when the lock has just been granted or is just being released.
  def test_no_moment_is_a_bad_one
    @holder.release
    random = Random.new
    locks = Array.new(4) { client.lock(lock_name) }
    inside = 0
    400.times do |round|
      lock = locks[round % 4]
      entered = false
      body = proc { inside += 1 }
      acquire = -> { hold(lock) { entered = true } }
      thread = Thread.new { round % 3 == 0 ? lock.synchronize(timeout: nil, &body) : acquire.call }
      thread.report_on_exception = false
      sleep(random.rand * 0.003)
      round.even? ? thread.kill : thread.raise(Stop)
      thread.join rescue nil # rubocop:disable Style/RescueModifier
      assert_equal entered, lock.held?
      lock.release if entered
    end
    assert_operator inside, :>, 0
    await_members(0)
    locks.each { |lock| lock.synchronize(timeout: LONG) { nil } }
  end

  # Interrupted while it waits, and not when it has returned.
  def hold(lock)
    Thread.handle_interrupt(Object => :on_blocking) do
      lock.acquire(timeout: nil)
      yield
    end
  end

  def test_signal_handlers_may_release_and_cancel
    told = Queue.new
    other = client.lock("#{lock_name}-other").acquire
    before = trap(:USR1) { told << [@lock.cancel.held?, other.release.held?, other.loss] }
    thread = waiter(@lock)
    Process.kill(:USR1, Process.pid)
    assert_equal [false, false, nil], told.pop
    assert_raises(Portalock::Cancelled) { thread.value }
  ensure
    trap(:USR1, before || "DEFAULT")
  end
end
