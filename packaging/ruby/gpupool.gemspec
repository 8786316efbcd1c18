# frozen_string_literal: true

# SPDX-License-Identifier: Apache-2.0
Gem::Specification.new do |spec|
  spec.name = "gpupool"
  spec.version = "@VERSION@"
  spec.summary = "A pool of GPU memory"
  spec.description = "A pool of GPU memory that hardly fragments, with exact limits, and a simulated device for " \
                     "machines without a GPU."
  spec.authors = ["The gpupool developers"]
  spec.homepage = "https://github.com/gpupool/gpupool"
  spec.license = "Apache-2.0"
  spec.metadata = {
    "source_code_uri" => "https://github.com/gpupool/gpupool",
    "changelog_uri" => "https://github.com/gpupool/gpupool/blob/main/CHANGELOG.md",
    "rubygems_mfa_required" => "true",
  }
  # The native code works with one release of Ruby only.
  spec.platform = "@PLATFORM@"
  spec.required_ruby_version = "~> @RUBY@.0"
  spec.files = ["LICENSE", "README.md", "lib/gpupool.rb", "lib/gpupool_native.so", "lib/@SONAME@"]
end
