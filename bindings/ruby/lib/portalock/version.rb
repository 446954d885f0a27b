# frozen_string_literal: true

module Portalock
  # The version of the gem, which is that of the library it is made for.
  VERSION = "0.1.0"
end
