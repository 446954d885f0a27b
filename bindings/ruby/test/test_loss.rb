# frozen_string_literal: true

require_relative "helper"

# What is told of a lock that was lost, and to whom.
class LossTest < PortalockTest
  def setup
    super
    @lock = client.lock(lock_name)
  end

  # Has the server end the lock's connection, and returns when that is known.
  def lose(lock = @lock)
    assert_equal 1, server.cut(lock_name)
    eventually("the loss") { !lock.held? }
  end

  def test_leaving_the_block_raises
    reached = false
    error = assert_raises(Portalock::Lost) do
      @lock.synchronize do
        lose
        reached = true
      end
    end
    assert reached
    assert_equal :lost, error.status
    assert_match(/lost/, error.message)
    @lock.synchronize { assert_predicate @lock, :held? }
  end

  def test_a_break_does_not_hide_it
    assert_raises(Portalock::Lost) do
      @lock.synchronize do
        lose
        break
      end
    end
  end

  def test_the_bodys_own_exception_wins
    error = assert_raises(IndexError) do
      @lock.synchronize do
        lose
        raise IndexError, "of the body"
      end
    end
    assert_kind_of Portalock::Lost, error.cause
    assert_match(/of the body/, error.full_message)
    assert_match(/test_loss\.rb/, error.backtrace.first)
  end

  def test_a_cause_that_there_is_already_stays
    error = assert_raises(IndexError) do
      @lock.synchronize do
        lose
        begin
          raise KeyError
        rescue KeyError
          raise IndexError
        end
      end
    end
    assert_kind_of KeyError, error.cause
    eventually { @lock.loss }
  end

  def test_a_thread_that_is_killed_dies_of_that
    thread = Thread.new do
      @lock.synchronize do
        sleep
      end
    end
    eventually { @lock.held? }
    lose
    thread.kill
    assert_nil thread.value
  end

  def test_what_is_not_held_any_more_says_so_until_it_is_released
    @lock.acquire
    lose
    2.times { assert_raises(Portalock::Lost) { @lock.verify } }
    assert_nil @lock.verified_age
    assert_raises(Portalock::Lost) { @lock.release }
    assert_raises(Portalock::NotHeld) { @lock.release }
  end

  def test_a_callback_is_called_in_a_ruby_thread_with_the_reason
    told = Queue.new
    @lock.on_lost { |loss| told << [loss, Thread.current] }
    @lock.acquire
    lose
    loss, thread = told.pop
    assert_equal :disconnected, loss.reason
    assert_match(/closed the connection/, loss.message)
    assert_equal loss.message, loss.to_s
    assert_equal loss, @lock.loss
    assert_predicate loss, :frozen?
    refute_same Thread.current, thread
    assert_includes Thread.list, thread
  end

  def test_a_callback_may_be_replaced_and_taken_away
    told = Queue.new
    @lock.on_lost { flunk }
    @lock.on_lost { told << :second }
    @lock.acquire
    lose
    assert_equal :second, told.pop
    assert_raises(Portalock::Lost) { @lock.release }
    @lock.on_lost
    @lock.acquire
    before = @lock.loss
    lose
    eventually { !@lock.loss.equal?(before) }
    assert_empty told
  end

  def test_a_callback_may_acquire_the_lock_again
    regained = Queue.new
    @lock.on_lost do
      begin
        @lock.release
      rescue Portalock::Lost
        nil
      end
      regained << @lock.acquire(timeout: LONG)
    end
    2.times do
      @lock.try_acquire unless @lock.held?
      lose_once
      assert_predicate regained.pop, :held?
    end
  end

  # The callback may have it back before anybody sees that it was lost.
  def lose_once
    assert_equal 1, server.cut(lock_name)
  end

  def test_a_callback_that_fails_harms_no_other
    told = Queue.new
    @lock.on_lost { raise "on purpose" }
    other = client.lock("#{lock_name}-other")
    @lock.acquire
    _, err = capture_subprocess_io do
      lose
      other.on_lost { told << 1 }
      other.acquire
      server.cut("#{lock_name}-other")
      told.pop
      eventually { @lock.loss }
      sleep 0.05
    end
    assert_match(/on_lost failed.*on purpose/, err)
  end

  def test_no_callback_for_what_is_released_or_closed
    @lock.on_lost { flunk }
    @lock.acquire
    @lock.release
    @lock.acquire
    @lock.close
    sleep 0.1
    assert_nil @lock.loss
  end

  def test_a_server_that_goes_is_a_loss
    private = RedisServer.new
    lock = client(private.url).lock("x")
    told = Queue.new
    lock.on_lost { |loss| told << loss }
    error = assert_raises(Portalock::Lost) do
      lock.synchronize do
        private.kill
        told.pop
      end
    end
    assert_predicate error, :retryable?
    private.start
    assert lock.acquire(timeout: LONG).held?
  ensure
    private.stop
  end
end
