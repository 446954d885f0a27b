# frozen_string_literal: true

require_relative "lib/portalock/version"

Gem::Specification.new do |spec|
  spec.name = "portalock"
  spec.version = Portalock::VERSION
  spec.authors = ["The portalock authors"]
  spec.summary = "Distributed locks held by a live Redis subscription"
  spec.description = "A lock is held by a connection, not by a key that expires: if the holder's " \
                     "process dies, the lock is free at once. Waiters are served in order."
  spec.license = "BSD-3-Clause"
  spec.required_ruby_version = ">= 3.1"
  # The shared object is taken along if it was copied to lib/portalock before the gem is built.
  spec.files = Dir.chdir(__dir__) do
    Dir["lib/**/*.rb", "lib/portalock/libportalock.*", "sig/*.rbs", "README.md", "LICENSE"]
  end
  spec.require_paths = ["lib"]
  spec.add_dependency "ffi", "~> 1.15"
  spec.metadata["rubygems_mfa_required"] = "true"
end
