# frozen_string_literal: true

require_relative "helper"
require "open3"

# The gem as a thing: how it finds the library, how it is built and installed, and what describes it.
class PackageTest < PortalockTest
  SOURCES = Dir[File.join(GEM, "{lib,test}/**/*.rb"), File.join(ROOT, "examples/ruby/*.rb")]
  # Of a program that must not see what this one was started with.
  CLEAN = { "RUBYOPT" => nil, "RUBYLIB" => nil, "BUNDLE_GEMFILE" => nil }.freeze

  USE = <<~RUBY
    require "portalock"
    client = Portalock::Client.new(ARGV[0])
    puts client.lock(ARGV[1]).synchronize { |lock| lock.verify }
    puts $LOADED_FEATURES.grep(/portalock/).first
    puts File.readlines("/proc/self/maps").grep(/libportalock/).first.split.last
  RUBY

  def setup
    super
    @dir = File.realpath(Dir.mktmpdir("portalock-gem"))
  end

  def teardown
    super
    FileUtils.rm_rf(@dir)
  end

  def run_well(env, *command, **options)
    said, status = Open3.capture2e(CLEAN.merge(env), *command, **options)
    assert_predicate status, :success?, said
    said
  end

  def gem_of(folder)
    run_well({}, "gem", "build", "portalock.gemspec", "--output", "#{@dir}/portalock.gem", chdir: folder)
    "#{@dir}/portalock.gem"
  end

  # What is handed out alone, the gem and the Go module, has to carry the terms with it.
  def test_the_licence_is_that_of_the_whole
    terms = File.read(File.join(ROOT, "LICENSE"))
    %w[ruby go].each { |language| assert_equal terms, File.read(File.join(ROOT, "bindings", language, "LICENSE")) }
  end

  # Where the system's ffi is found too.
  def home
    { "GEM_HOME" => "#{@dir}/home", "GEM_PATH" => ["#{@dir}/home", *Gem.path].join(":") }
  end

  def install(file)
    run_well(home, "gem", "install", "--local", "--no-document", file)
  end

  def test_the_gem_can_be_built_installed_and_used
    said = install(gem_of(GEM))
    assert_match(/Successfully installed portalock-#{Portalock::VERSION}/, said)
    verified, from, = run_well(home, RbConfig.ruby, "-W", "-e", USE, server.url, lock_name).lines(chomp: true)
    assert_equal "true", verified
    assert from.start_with?("#{@dir}/home/gems/portalock-#{Portalock::VERSION}/lib"), from
    files = Dir.chdir("#{@dir}/home/gems/portalock-#{Portalock::VERSION}") { Dir["**/*.*"] }
    assert_includes files, "sig/portalock.rbs"
    assert_includes files, "README.md"
    assert_path_exists "#{@dir}/home/gems/portalock-#{Portalock::VERSION}/LICENSE"
  end

  def test_a_gem_that_carries_the_library_needs_no_other
    FileUtils.cp_r(GEM, "#{@dir}/source")
    FileUtils.cp(ENV.fetch("PORTALOCK_LIBRARY"), "#{@dir}/source/lib/portalock/libportalock.so")
    install(gem_of("#{@dir}/source"))
    env = home.merge("PORTALOCK_LIBRARY" => nil)
    *, loaded = run_well(env, RbConfig.ruby, "-W", "-e", USE, server.url, lock_name).lines(chomp: true)
    assert loaded.start_with?("#{@dir}/home/gems"), loaded
  end

  def load_with(env)
    command = [RbConfig.ruby, "-W", "-I", File.join(GEM, "lib"), "-r", "portalock", "-e", "puts :loaded"]
    Open3.capture2e(CLEAN.merge(env), *command).first
  end

  def test_pkg_config_is_asked
    FileUtils.cp(ENV.fetch("PORTALOCK_LIBRARY"), "#{@dir}/#{Portalock::Library::SONAME}")
    File.write("#{@dir}/portalock.pc", "libdir=#{@dir}\nName: portalock\nDescription: x\nVersion: 0.1.0\n")
    env = { "PORTALOCK_LIBRARY" => nil, "PKG_CONFIG_PATH" => @dir }
    skip "there is no pkg-config" unless system("command -v pkg-config >/dev/null")
    assert_equal "loaded\n", load_with(env)
  end

  def test_a_library_that_is_not_found_is_told_with_all_that_was_tried
    said = load_with("PORTALOCK_LIBRARY" => "/nonexistent/libportalock.so")
    assert_match(/LoadError/, said)
    assert_match(%r{^  /nonexistent/libportalock\.so: }, said)
    refute_match(/^  libportalock\.so/, said, "another was tried")
    said = load_with("PORTALOCK_LIBRARY" => "", "PKG_CONFIG_PATH" => @dir)
    skip "the library is installed here" if said == "loaded\n"
    assert_match(/^  libportalock\.so\.0: /, said)
    assert_match(/\$PORTALOCK_LIBRARY/, said)
  end

  def test_what_is_no_library_of_ours_is_told
    assert_match(/pl_version/, load_with("PORTALOCK_LIBRARY" => "libc.so.6"))
  end

  def test_no_source_gives_rise_to_a_warning
    SOURCES.each do |path|
      assert_equal "Syntax OK\n", Open3.capture2e(RbConfig.ruby, "-wc", path).first, path
      assert_operator File.readlines(path).size, :<, 500, path
      assert_match(/\A# frozen_string_literal: true\n/, File.read(path), path)
    end
  end

  def signatures
    require "rbs"
    source = File.read(File.join(GEM, "sig/portalock.rbs"))
    parsed = RBS::Parser.parse_signature(RBS::Buffer.new(name: "portalock.rbs", content: source))
    parsed.is_a?(Array) && parsed.last.is_a?(Array) ? parsed.last : parsed
  rescue LoadError
    skip "there is no rbs"
  end

  # Each public method is in the signatures, and nothing else is.
  def test_the_signatures_are_those_of_the_code
    described = described_names
    [Portalock::Client, Portalock::Lock].each do |klass|
      name = klass.name.split("::").last.to_sym
      written = klass.public_instance_methods(false) - %i[pointer start_pump]
      assert_equal written.sort, (described[name] - [:initialize]).sort
    end
    errors = Portalock.constants.select { |name| error?(Portalock.const_get(name)) }
    assert_empty errors - described.keys
    assert_empty described.keys - Portalock.constants
  end

  # The names of the members of each class.
  def described_names
    classes = signatures.first.members.grep(RBS::AST::Declarations::Class)
    classes.to_h do |declaration|
      members = declaration.members.select { |m| m.respond_to?(:kind) || m.respond_to?(:ivar_name) }
      [declaration.name.name, members.map(&:name)]
    end
  end

  def error?(constant)
    constant.is_a?(Class) && constant <= Portalock::Error
  end

  def test_the_signatures_are_valid
    signatures
    environment = RBS::EnvironmentLoader.new
    environment.add(path: Pathname(File.join(GEM, "sig")))
    builder = RBS::DefinitionBuilder.new(env: RBS::Environment.from_loader(environment).resolve_type_names)
    [:Client, :Lock, :Holder, :Loss, :Timeout].each do |name|
      type = RBS::TypeName.new(name: name, namespace: RBS::Namespace.parse("::Portalock"))
      assert_operator builder.build_instance(type).methods.size, :>, 1
    end
  end
end
