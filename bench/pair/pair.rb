# frozen_string_literal: true

# Pairs through the gem: pair.rb Ruby pair URL NAME COUNT HOLD_US, as bench/src/work.rs does them.
require "json"
require "portalock"

def now = Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond)

_, _, url, name, count = ARGV
lock = Portalock::Client.new(url).lock(name)
one = lambda do
  begin_at = now
  lock.acquire(timeout: nil)
  acquired = now
  lock.release
  [acquired - begin_at, now - begin_at]
end
20.times { one.call }
puts JSON.generate(Array.new(Integer(count)) { one.call })
