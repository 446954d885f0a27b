# frozen_string_literal: true

# One of several processes leads, the others stand by. When the leader steps down or dies, the next leads.
#
#   leader.rb URL NAME ROUNDS MILLISECONDS
#
# Leads so many times, for so many milliseconds each, and lets the others have their turn in between. A
# leader that loses the lock stops leading at once, and stands again.

require "portalock"

abort "usage: #{$PROGRAM_NAME} URL NAME ROUNDS MILLISECONDS" if ARGV.size < 4

url, name, rounds, milliseconds = ARGV
$stdout.sync = true

def say(words)
  puts "leader #{Process.pid} #{words}"
end

# Told at once of a loss, the leader need not look for it all the time.
losses = Thread::Queue.new
lock = Portalock::Client.new(url).lock(name, label: "leader #{Process.pid}")
lock.on_lost { |loss| losses << loss }

# What a leader does; here it waits for the end of its time, or for a loss.
def lead(losses, seconds)
  timer = Thread.new do
    sleep seconds
    losses << nil
  end
  losses.pop
ensure
  timer&.kill
end

rounds.to_i.times do
  losses.clear
  lock.synchronize(timeout: nil) do
    say "leads"
    lead(losses, milliseconds.to_f / 1000)
  end
  say "steps down"
rescue Portalock::Lost => e
  say "lost it: #{e.message}"
end
