# frozen_string_literal: true

$LOAD_PATH.unshift(File.expand_path("../lib", __dir__))

require "fileutils"
require "minitest/autorun"
require "portalock"
require "rbconfig"
require "socket"
require "timeout"
require "tmpdir"

# In front of a command: it goes with this process also if that is killed, where there is a program for that.
LEASH = system("command -v setpriv >/dev/null") ? %w[setpriv --pdeathsig KILL].freeze : [].freeze

# A private redis-server on a unix socket, and what the tests want to know of it.
class RedisServer
  attr_reader :url, :pid

  def self.shared
    @shared ||= new.tap { |server| at_exit_of_this_process { server.stop } }
  end

  # The tests fork.
  def self.at_exit_of_this_process
    pid = Process.pid
    Minitest.after_run { yield if Process.pid == pid }
  end

  def initialize(*settings)
    @dir = Dir.mktmpdir("portalock-ruby")
    @socket = File.join(@dir, "redis.sock")
    @url = "unix://#{@socket}"
    @settings = settings
    start
  end

  def start
    @pid = spawn(*LEASH, "redis-server", "--port", "0", "--unixsocket", @socket, "--save", "",
                 "--dir", @dir, *@settings, out: File::NULL, err: File::NULL)
    deadline = Time.now + 10
    until answers?
      if Time.now > deadline
        kill
        raise "no redis-server could be started"
      end
      sleep 0.01
    end
  end

  def kill
    Process.kill(:KILL, @pid)
    Process.wait(@pid)
    FileUtils.rm_f(@socket)
  end

  def stop
    kill
    FileUtils.rm_rf(@dir)
  end

  # Runs one command; errors of the server are returned as strings.
  def run(*words)
    UNIXSocket.open(@socket) do |io|
      io << "*#{words.size}\r\n" << words.map { |w| "$#{w.to_s.bytesize}\r\n#{w}\r\n" }.join
      read(io)
    end
  end

  # How many are subscribed to a channel.
  def members(name)
    run("PUBSUB", "NUMSUB", name).last
  end

  # Ends the connections of all holders and waiters of a lock.
  def cut(name)
    lines = run("CLIENT", "LIST").lines.grep(/ name=#{Regexp.escape(name)}-lock-/)
    lines.each { |line| run("CLIENT", "KILL", "ID", line[/\bid=(\d+)/, 1]) }
    lines.size
  end

  private

  def answers?
    run("PING").is_a?(String) # Or a complaint that there is no password.
  rescue SystemCallError
    false
  end

  def read(io)
    kind, rest = io.gets.chomp.then { |line| [line[0], line[1..]] }
    case kind
    when "$" then rest == "-1" ? nil : io.read(rest.to_i + 2)[0..-3]
    when "*" then Array.new(rest.to_i) { read(io) }
    when ":" then rest.to_i
    else rest
    end
  end
end

# What all tests of the gem have at hand.
class PortalockTest < Minitest::Test
  ROOT = File.expand_path("../../..", __dir__)
  GEM = File.expand_path("..", __dir__)

  # Longer than anything takes on a busy machine, and shorter than a person's patience.
  LONG = 20

  def setup
    @clients = []
  end

  def teardown
    @clients.each(&:close)
  end

  def server
    RedisServer.shared
  end

  def client(url = server.url, **options)
    Portalock::Client.new(url, **options).tap { |made| @clients << made }
  end

  # Another for each test.
  def lock_name
    "#{self.class}-#{name}"
  end

  # A lock that somebody else holds.
  def held_elsewhere(**options)
    client.lock(lock_name, **options).acquire
  end

  def eventually(what = "it", seconds: LONG)
    deadline = now + seconds
    until (value = yield)
      flunk("#{what} did not come true") if now > deadline
      sleep 0.005
    end
    value
  end

  def await_members(count, of: lock_name)
    eventually("#{count} members") { server.members(of) == count }
  end

  def now
    Process.clock_gettime(Process::CLOCK_MONOTONIC)
  end

  def seconds
    begun = now
    yield
    now - begun
  end

  # A thread that has begun to wait for the lock.
  def waiter(lock, **options, &block)
    before = server.members(lock.name)
    thread = Thread.new { block ? block.call(lock) : lock.acquire(timeout: nil, **options) }
    thread.report_on_exception = false
    await_members(before + 1, of: lock.name)
    thread
  end

  # A process of its own that runs this Ruby code with the gem loaded.
  def ruby(code, *arguments)
    popen("-r", "portalock", "-e", code, *arguments)
  end

  def popen(*arguments)
    command = [*LEASH, RbConfig.ruby, "-W", "-I", File.join(GEM, "lib"), *arguments.map(&:to_s)]
    IO.popen(command, "r+", err: %i[child out])
  end
end
