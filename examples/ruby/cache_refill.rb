# frozen_string_literal: true

# A cache that many processes read, and that exactly one of them fills when it is stale: readers hold the
# lock together, the one that fills it holds it alone.
#
#   cache_refill.rb URL NAME FILE
#
# Here the cache is a file, and it is stale if there is none.

require "portalock"

abort "usage: #{$PROGRAM_NAME} URL NAME FILE" if ARGV.size < 3

url, name, file = ARGV

# Nil if it is stale.
def cached(file)
  File.read(file)
rescue Errno::ENOENT
  nil
end

# Whatever is dear. The file appears as a whole or not at all.
def refill(file)
  sleep 0.2
  File.write("#{file}.new", "value of #{Process.pid}")
  File.rename("#{file}.new", file)
end

lock = Portalock::Client.new(url).lock(name)

value = lock.synchronize(shared: true, timeout: 60) { cached(file) }
unless value
  # Many have seen that it is stale and come here one after the other: the first one fills it, and the
  # others see that when they look again.
  refilled = lock.synchronize(timeout: 60) { refill(file) unless cached(file) }
  value = lock.synchronize(shared: true, timeout: 60) { cached(file) } unless refilled
end

puts refilled ? "#{Process.pid} refills" : "#{Process.pid} reads #{value}"
