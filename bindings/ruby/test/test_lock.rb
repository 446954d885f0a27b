# frozen_string_literal: true

require_relative "helper"

# The life of a lock, and what is refused.
class LockTest < PortalockTest
  def test_synchronize_holds_the_lock_for_the_time_of_the_block
    lock = client.lock(lock_name)
    result = lock.synchronize(timeout: 1) do |same|
      assert_same lock, same
      assert_predicate lock, :held?
      assert_equal 1, server.members(lock_name)
      :result
    end
    assert_equal :result, result
    refute_predicate lock, :held?
    await_members(0)
  end

  def test_a_block_may_be_left_in_any_way
    lock = client.lock(lock_name)
    assert_raises(IndexError) { lock.synchronize { raise IndexError, "of the body" } }
    lock.synchronize { break }
    catch(:out) { lock.synchronize { throw :out } }
    refute_predicate lock, :held?
    assert lock.try_acquire
  end

  def test_a_block_that_releases_by_itself_is_told
    lock = client.lock(lock_name)
    assert_raises(Portalock::NotHeld) { lock.synchronize(&:release) }
  end

  def test_a_holder_keeps_others_out_and_they_are_told_why
    held_elsewhere
    lock = client.lock(lock_name)
    error = assert_raises(Portalock::Timeout) { lock.acquire(timeout: 0.05) }
    assert_equal :timeout, error.status
    assert_predicate error, :retryable?
    assert_includes error.message, lock_name
    error = assert_raises(Portalock::Locked) { lock.acquire(timeout: 0) }
    assert_equal :locked, error.status
    refute lock.try_acquire
    assert_raises(Portalock::Timeout) { lock.synchronize(timeout: 0.05) { flunk } }
    assert_raises(Portalock::Locked) { client.lock(lock_name, fail_when_locked: true).acquire }
    assert_raises(Portalock::Timeout) { client.lock(lock_name, timeout: 0.05).acquire }
    await_members(1)
  end

  def test_waiters_are_served_in_their_order
    first = held_elsewhere
    order = Queue.new
    threads = Array.new(4) do |i|
      waiter(client.lock(lock_name)) { |lock| lock.synchronize(timeout: LONG) { order << i } }
    end
    first.release
    threads.each(&:join)
    assert_equal [0, 1, 2, 3], Array.new(4) { order.pop }
  end

  def test_readers_share_and_writers_do_not
    reader = held_elsewhere(shared: true)
    other = client.lock(lock_name)
    assert other.try_acquire(shared: true)
    refute client.lock(lock_name).try_acquire
    assert_equal %i[shared shared], other.holders.map(&:mode)
    reader.release
    other.release
    assert client.lock(lock_name, shared: true).try_acquire(shared: false)
  end

  def test_who_is_there_can_be_asked
    lock = client.lock(lock_name, label: "größer").acquire
    waiter(client.lock(lock_name, disclose: false), shared: true)
    holder, waiting = client.holders(lock_name)
    assert_equal [lock.holder_id, Process.pid, "größer"], [holder.id, holder.pid, holder.label]
    assert_equal %i[exclusive exclusive], [holder.mode, holder.wants]
    assert_predicate holder, :held?
    assert_in_delta Time.now, holder.since, LONG
    refute holder.foreign || holder.legacy
    assert_predicate waiting, :waiting?
    assert_equal [nil, :shared, nil, nil, nil], waiting.to_h.values_at(:mode, :wants, :pid, :label, :since)
  end

  def test_a_token_grows_with_every_grant
    lock = client.lock(lock_name, fencing: true)
    tokens = Array.new(3) { lock.synchronize(&:fencing_token) }
    assert_equal tokens.uniq.sort, tokens
    assert_raises(Portalock::NotHeld) { lock.fencing_token }
  end

  def test_a_held_lock_can_be_verified
    lock = client.lock(lock_name)
    assert_raises(Portalock::NotHeld) { lock.verify }
    assert_nil lock.verified_age
    lock.acquire
    assert lock.verify
    assert_operator lock.verified_age, :<, LONG
    lock.release(confirm: 5)
    assert_equal 0, server.members(lock_name)
  end

  def test_an_acquire_can_be_cancelled_or_closed_under_its_waiter
    held_elsewhere
    lock = client.lock(lock_name)
    %i[cancel close].each do |how|
      thread = waiter(lock)
      lock.public_send(how)
      assert_equal :cancelled, assert_raises(Portalock::Cancelled) { thread.value }.status
      await_members(1)
    end
    assert_predicate lock, :closed?
    assert_raises(Portalock::Invalid) { lock.acquire }
    assert_nil lock.close
  end

  def test_locks_are_not_reentrant
    lock = held_elsewhere
    assert_raises(Portalock::Active) { lock.acquire }
    assert_predicate lock, :held?
    other = client.lock(lock_name)
    waiter(other)
    assert_equal :active, assert_raises(Portalock::Active) { other.acquire }.status
  end

  def test_closing_a_client_releases_its_locks
    mine = client
    lock = mine.lock(lock_name).acquire
    mine.close
    await_members(0)
    refute_predicate lock, :held?
    assert_predicate mine, :closed?
    assert_raises(Portalock::Invalid) { mine.ping }
    assert_raises(Portalock::Invalid) { mine.lock("x") }
    assert_nil mine.close
  end

  def test_wrong_arguments_are_refused
    mine = client
    lock = mine.lock(lock_name)
    [-1, Float::NAN, 1e12].each { |t| assert_raises(Portalock::Invalid) { lock.acquire(timeout: t) } }
    assert_raises(TypeError) { lock.acquire(timeout: "5") }
    ["", "a\0b", "\xff", "x-lock-events", "x" * 1025].each do |name|
      assert_raises(Portalock::Invalid) { mine.lock(name) }
    end
    assert_raises(Portalock::Invalid) { mine.lock("x", label: "x" * 257) }
    assert_raises(Portalock::Invalid) { mine.lock("x", health_check_interval: 0.01) }
    assert_raises(ArgumentError) { mine.lock("x", color: 1) }
    assert_raises(Portalock::Invalid) { client(server.url, pool_size: 2000) }
    assert_raises(Portalock::Unsupported) { client("http://host") }
    assert_raises(LocalJumpError) { lock.synchronize }
    assert lock.try_acquire
  end

  def test_a_server_that_cannot_be_used_is_told_by_its_class
    nobody = client("unix:///nonexistent/redis.sock", connect_timeout: 1)
    error = assert_raises(Portalock::ConnectionError) { nobody.lock("x").acquire(timeout: 0.1) }
    assert_predicate error, :retryable?
    assert_raises(error.class) { nobody.ping(timeout: 0.1) }
  end

  def test_a_wrong_password_is_told_at_once_and_not_shown
    private = RedisServer.new("--requirepass", "secret")
    wrong = client("#{private.url}?pass=sesame")
    error = assert_raises(Portalock::AuthError) { wrong.lock("x").acquire(timeout: LONG) }
    assert_kind_of Portalock::ConnectionError, error
    refute_predicate error, :retryable?
    refute_match(/sesame|secret/, [error.full_message, wrong.inspect].join)
    assert client("#{private.url}?pass=secret").ping.positive?
  ensure
    private.stop
  end

  def test_objects_say_what_they_are
    lock = client.lock(lock_name)
    assert_match(/Portalock::Lock "#{lock_name}" not held/, lock.inspect)
    assert_match(/ held/, lock.acquire.inspect)
    lock.close
    assert_match(/ closed/, lock.inspect)
    assert_match(/\A\d+\.\d+\.\d+\z/, Portalock.library_version)
    assert_equal Portalock::VERSION, Portalock.library_version
  end
end
