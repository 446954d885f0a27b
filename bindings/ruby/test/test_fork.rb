# frozen_string_literal: true

require_relative "helper"

# Real forks, as of servers that load the application first and fork their workers then.
class ForkTest < PortalockTest
  # What the block returns in a child, by way of Marshal. The child ends as programs do, with all that
  # runs at exit, but for the test runner.
  def in_child
    reader, writer = IO.pipe
    pid = fork do
      reader.close
      value = begin
        yield
      rescue Exception => e # rubocop:disable Lint/RescueException
        "#{e.class}: #{e.message}"
      end
      writer.write(Marshal.dump(value))
    ensure
      writer.close
      exit_for_good
    end
    writer.close
    Marshal.load(reader.read).tap { Process.wait(pid) }
  ensure
    reader.close
  end

  # Runs all finalizers, and none of the handlers that minitest has set for this process.
  def exit_for_good
    ObjectSpace.garbage_collect
    $stderr.reopen(File::NULL)
    at_exit { exit! }
    exit
  end

  def raised
    yield
    :nothing
  rescue Portalock::Error => e
    [e.class, e.status]
  end

  def test_what_the_child_inherits_says_so_and_the_parent_keeps_its_lock
    mine = client
    lock = mine.lock(lock_name).acquire
    answers = in_child do
      calls = [
        -> { lock.acquire }, -> { lock.try_acquire }, -> { lock.release }, -> { lock.verify },
        -> { lock.cancel }, -> { lock.holders }, -> { lock.fencing_token }, -> { lock.holder_id },
        -> { lock.on_lost { nil } }, -> { lock.synchronize { nil } }, -> { mine.lock("x") },
        -> { mine.ping }, -> { mine.holders("x") }
      ]
      calls.map { |call| raised(&call) }
    end
    assert_equal [[Portalock::Forked, :forked]], answers.uniq
    assert lock.verify
    assert_equal 1, server.members(lock_name)
    assert_nil lock.loss
  end

  def test_what_answers_without_an_error_answers_for_the_child
    mine = client
    lock = mine.lock(lock_name).acquire
    answers = in_child { [lock.held?, lock.verified_age, lock.close, mine.close, lock.inspect[/of another/]] }
    assert_equal [false, nil, nil, nil, "of another"], answers
    assert lock.verify
  end

  def test_a_client_made_in_the_child_works
    lock = client.lock(lock_name).acquire
    answers = in_child do
      own = Portalock::Client.new(server.url).lock(lock_name)
      refused = own.try_acquire
      other = Portalock::Client.new(server.url).lock("#{lock_name}-child")
      [refused, other.synchronize { other.verify }]
    end
    assert_equal [false, true], answers
    assert lock.verify
  end

  def test_nothing_that_the_child_collects_touches_the_parent
    mine = client
    locks = Array.new(20) { |i| mine.lock("#{lock_name}-#{i}").acquire }
    in_child do
      locks.clear
      4.times { GC.start }
      sleep 0.05
    end
    locks.each { |lock| assert lock.verify }
  end

  def test_workers_in_a_preforking_server_contend
    parent = client.lock(lock_name).acquire
    reader, writer = IO.pipe
    workers = Array.new(4) do
      fork do
        lock = Portalock::Client.new(server.url).lock(lock_name)
        lock.synchronize(timeout: LONG) do
          writer.syswrite("+")
          sleep 0.02
          writer.syswrite("-")
        end
      ensure
        exit!
      end
    end
    writer.close
    await_members(5)
    parent.release
    assert_equal "+-" * 4, reader.read
    workers.each { |pid| Process.wait(pid) }
    assert parent.try_acquire
  end

  # A child that a block is left in too: the lock is not its own, and its own way out stays.
  def test_a_fork_within_a_block
    lock = client.lock(lock_name)
    lock.synchronize do
      pid = fork or begin
        at_exit { exit!($!.is_a?(SystemExit) ? 7 : 8) }
        exit
      end
      assert_equal 7, Process.wait2(pid).last.exitstatus
      assert lock.verify
    end
  end

  def test_a_fork_while_a_thread_waits
    held_elsewhere
    lock = client.lock(lock_name)
    thread = waiter(lock)
    assert_equal [Portalock::Forked, :forked], in_child { raised { lock.acquire } }
    assert_predicate thread, :alive?
    await_members(2)
    thread.kill.join
    await_members(1)
  end

  # The fork comes while the other threads are anywhere in the library, or in the gem.
  def test_forks_at_any_moment
    stop = false
    busy = Array.new(2) do |i|
      Thread.new do
        lock = client.lock("#{lock_name}-#{i}")
        lock.synchronize(timeout: LONG) { nil } until stop
      end
    end
    20.times do
      assert_equal true, in_child { Portalock::Client.new(server.url).lock(lock_name).try_acquire }
      await_members(0)
    end
  ensure
    stop = true
    busy.each(&:join)
  end
end
