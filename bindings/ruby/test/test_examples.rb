# frozen_string_literal: true

require_relative "helper"

# The programs in examples/ruby, as processes of their own.
class ExamplesTest < PortalockTest
  EXAMPLES = File.join(ROOT, "examples/ruby")

  def teardown
    super
    (@running || []).each do |io|
      Process.kill(:KILL, io.pid)
      io.close
    rescue Errno::ESRCH, IOError
      nil # It is over.
    end
  end

  def start(name, *arguments)
    io = popen(File.join(EXAMPLES, "#{name}.rb"), server.url, *arguments)
    (@running ||= []) << io
    io
  end

  # What it says up to its end, and how it ends.
  def finish(io)
    said = io.read
    io.close
    [said, $?]
  end

  # What it says up to a line that matches.
  def await_line(io, wanted)
    Timeout.timeout(60) do
      lines = []
      until lines.last&.match?(wanted)
        line = io.gets or flunk "it ends before #{wanted.inspect}: #{lines.last(5).join}"
        lines << line
      end
      lines
    end
  end

  def test_guarded_jobs_wait_for_each_other
    # Long enough for Ruby to start on a busy machine.
    first = start("guarded_job", lock_name, 4000, "one")
    await_line(first, /holds/)
    second = start("guarded_job", lock_name, 10, "two")
    await_line(second, /sees one/)
    said, status = finish(first)
    assert_predicate status, :success?
    assert_match(/done/, said)
    said, status = finish(second)
    assert_predicate status, :success?
    assert_match(/holds.*done/m, said)
  end

  def test_a_guarded_job_says_that_it_waits
    held = held_elsewhere
    job = start("guarded_job", lock_name, 10)
    await_line(job, /waits/)
    await_members(2)
    held.release
    assert_match(/holds.*done/m, finish(job).first)
  end

  def test_a_guarded_job_stops_when_its_lock_is_lost
    job = start("guarded_job", lock_name, 60_000)
    await_line(job, /holds/)
    server.cut(lock_name)
    said, status = finish(job)
    assert_match(/LOST/, said)
    assert_equal 3, status.exitstatus
  end

  def test_leaders_take_turns
    said = Array.new(3) { start("leader", lock_name, 3, 20) }.map { |io| finish(io).first.lines }
    said.each do |lines|
      pid = lines.first[/\Aleader (\d+) leads$/, 1]
      assert_equal ["leader #{pid} leads\n", "leader #{pid} steps down\n"] * 3, lines
    end
  end

  def test_a_leader_that_dies_is_replaced_and_one_that_loses_stands_again
    first = start("leader", lock_name, 2, 60_000)
    await_line(first, /leads/)
    server.cut(lock_name)
    await_line(first, /\Aleader \d+ lost it: ./)
    await_line(first, /leads/)
    second = start("leader", lock_name, 1, 10)
    await_members(2)
    Process.kill(:KILL, first.pid)
    assert_match(/leads.*steps down/m, finish(second).first)
  end

  def test_a_cache_is_filled_by_one_and_read_by_all
    Dir.mktmpdir do |dir|
      file = File.join(dir, "cache")
      said = Array.new(5) { start("cache_refill", lock_name, file) }.map { |io| finish(io).first }
      filling = said.grep(/\A\d+ refills$/)
      assert_equal 1, filling.size, said.inspect
      assert_equal 4, said.grep(/\A\d+ reads value of #{filling.first.to_i}$/).size, said.inspect
    end
  end

  def test_a_loop_takes_over_many_shards_and_leaves_when_told
    first = start("event_loop", lock_name, 40)
    await_line(first, /owns 40 of 40 shards/)
    second = start("event_loop", lock_name, 40)
    await_members(2, of: "#{lock_name}-39")
    Process.kill(:KILL, first.pid)
    await_line(second, /owns 40 of 40 shards/)
    server.cut("#{lock_name}-7")
    await_line(second, /shard 7 is lost/)
    await_line(second, /owns 40 of 40 shards/)
    Process.kill(:TERM, second.pid)
    said, status = finish(second)
    assert_match(/has left/, said)
    assert_predicate status, :success?
    await_members(0, of: "#{lock_name}-0")
  end
end
