# frozen_string_literal: true

require_relative "helper"

# Without a server.
class MemoryTest < PortalockTest
  URL = "memory://ruby-tests"

  def test_those_of_one_name_exclude_each_other_and_hand_over
    first = client(URL).lock(lock_name).acquire
    second = client(URL).lock(lock_name)
    refute second.try_acquire
    assert client("memory://other-tests").lock(lock_name).try_acquire
    thread = Thread.new { second.acquire(timeout: LONG) }
    first.release
    thread.join
    assert_predicate second, :held?
  end

  def test_a_name_has_to_be_given
    error = assert_raises(Portalock::Invalid) { client("memory://") }
    assert_match(/name/, error.message)
  end
end
