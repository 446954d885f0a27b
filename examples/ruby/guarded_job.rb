# frozen_string_literal: true

# A job of which only one may run at a time, on however many machines.
#
#   guarded_job.rb URL NAME MILLISECONDS [LABEL]
#
# Waits for its turn for as long as it takes, works for so many milliseconds, and leaves.
#
# Exit status: 0 done, 1 the lock could not be had, 2 wrong usage, 3 the lock was lost on the way.

require "portalock"

if ARGV.size < 3
  warn "usage: #{$PROGRAM_NAME} URL NAME MILLISECONDS [LABEL]"
  exit 2
end

url, name, milliseconds, label = ARGV
$stdout.sync = true

def say(words)
  puts format("%.6f guarded_job[%d] %s", Process.clock_gettime(Process::CLOCK_MONOTONIC), Process.pid, words)
end

# Works in small steps, and looks after each whether it may go on.
def work(lock, seconds)
  finish = Process.clock_gettime(Process::CLOCK_MONOTONIC) + seconds
  while Process.clock_gettime(Process::CLOCK_MONOTONIC) < finish
    # Others may have begun theirs. Leaving the block raises what has happened.
    return say("stops in the middle of its work") unless lock.held?

    sleep 0.001
  end
end

lock = Portalock::Client.new(url).lock(name, label: label)

begin
  others = lock.holders
  say "waits" unless others.empty?
  others.each { |other| say "  sees #{other.label || other.id} (pid #{other.pid}) #{other.state}" }
  lock.synchronize(timeout: nil) do
    say "holds"
    work(lock, milliseconds.to_f / 1000)
  end
  say "done"
rescue Portalock::Lost => e
  say "LOST the lock: #{e.message}"
  exit 3
rescue Portalock::Error => e
  say e.message
  exit 1
end
