# frozen_string_literal: true

# A daemon that looks after many shards, each under a lock of its own: it works on those whose locks it
# holds. Start it twice, and the second takes over what the first leaves, however it ends.
#
#   event_loop.rb URL PREFIX [COUNT]
#
# The locks are PREFIX-0, PREFIX-1 and so on, 100 unless told otherwise. SIGTERM and SIGINT end it.
#
# A thread for each shard waits for its lock; all are fed by one thread of the client, and the main thread
# handles what they tell. Where a fiber scheduler is set, they may as well be fibers.

require "portalock"

abort "usage: #{$PROGRAM_NAME} URL PREFIX [COUNT]" if ARGV.size < 2

url, prefix, count = ARGV
count = (count || 100).to_i
$stdout.sync = true

# Waits for the lock, says so, and begins again when it is lost.
def look_after(shard, lock, events)
  losses = Thread::Queue.new
  lock.on_lost { |loss| losses << loss }
  loop do
    lock.synchronize(timeout: nil) do
      events << [:owned, shard]
      losses.pop
    end
  rescue Portalock::Lost => e
    events << [:lost, shard, e.message]
  rescue Portalock::ConnectionError => e
    events << [:trouble, shard, e.message]
    sleep 1
  end
end

client = Portalock::Client.new(url)
events = Thread::Queue.new
%w[TERM INT].each { |signal| trap(signal) { events << [:ended] } }
count.times do |shard|
  lock = client.lock("#{prefix}-#{shard}")
  Thread.new { look_after(shard, lock, events) }
end

owned = 0
loop do
  what, shard, message = events.pop
  break if what == :ended

  owned += { owned: 1, lost: -1 }.fetch(what, 0)
  puts "shard #{shard} is lost: #{message}" if what == :lost
  puts "shard #{shard}: #{message}; still trying" if what == :trouble
  puts "event_loop[#{Process.pid}] owns #{owned} of #{count} shards" if events.empty?
end

# The threads end with the process, and each of them releases what it holds.
puts "event_loop[#{Process.pid}] has left"
