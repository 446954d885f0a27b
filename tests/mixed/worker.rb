# frozen_string_literal: true

# Goes through critical sections; see main.rs.
#
#   worker.rb URL NAME FOLDER LABEL SECTIONS INSIDE_MS PAUSE_MS

require "portalock"

url, name, folder, LABEL, sections, inside, pause = ARGV
Dir.chdir(folder)
$stdout.sync = true
JOURNAL = File.open("journal", File::WRONLY | File::APPEND)
COUNTER = File.open("counter", "r+")

# One write to a file opened for appending is one line, however many processes write.
def note(event, token = 0)
  now = Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond)
  JOURNAL.syswrite("#{event} #{LABEL} #{token} #{now}\n")
end

# Without a lock of its own: it loses some if two do it at once.
def count(inside)
  number = COUNTER.pread(16, 0).to_i
  sleep inside
  COUNTER.pwrite(format("%016d", number + 1), 0)
end

lock = Portalock::Client.new(url).lock(name, fencing: true)
lock.on_lost do |loss|
  warn "#{LABEL}: #{loss.message}"
  note("lost")
end
puts "worker> ready"
abort "#{LABEL}: cannot begin" unless $stdin.gets

sections.to_i.times do
  note("want")
  # Raises when the lock was lost on the way, and so does a folder that somebody else has made.
  lock.synchronize(timeout: nil) do
    token = lock.fencing_token
    Dir.mkdir("inside")
    note("enter", token)
    count(inside.to_f / 1000)
    note("leave", token)
    Dir.rmdir("inside")
  end
  sleep pause.to_f / 1000
end
