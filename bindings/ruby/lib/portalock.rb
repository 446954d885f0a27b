# frozen_string_literal: true

require "ffi"

require_relative "portalock/version"
require_relative "portalock/errors"
require_relative "portalock/library"
require_relative "portalock/native"
require_relative "portalock/arguments"
require_relative "portalock/handle"
require_relative "portalock/holder"
require_relative "portalock/stats"
require_relative "portalock/attempt"
require_relative "portalock/inbox"
require_relative "portalock/pump"
require_relative "portalock/lock"
require_relative "portalock/client"

# Distributed locks held by a live Redis subscription: if the process that holds one dies, its socket
# closes and the lock is free at once.
#
# @example
#   client = Portalock::Client.new("redis://127.0.0.1:6379")
#   client.lock("nightly-report").synchronize(timeout: 30) { build_report }
module Portalock
  # @return [String] the version of the shared library that runs
  def self.library_version
    Native.pl_version
  end
end
