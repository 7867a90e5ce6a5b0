// The engine on libtorch for a program that has it loaded only when asked to (torch_module.h).
#include <dlfcn.h>

#include <filesystem>

#include "common/base/status.h"
#include "common/torch/torch_module.h"

namespace outrider {
namespace {

// Opened once and never closed: what it brings lives to the end.
absl::StatusOr<TorchModuleEntry*> OpenModule() {
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::string path = (program.parent_path() / kTorchModule).string();
  void* const module = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (module == nullptr) {
    return FailedPrecondition("no libtorch: ", dlerror(),
                              "; install it (deploy/install-packages trainers), and ", kTorchModule,
                              " beside this program");
  }
  void* const entry = dlsym(module, kTorchModuleEntry);
  if (entry == nullptr) return FailedPrecondition(path, " is of another version: ", dlerror());
  return reinterpret_cast<TorchModuleEntry*>(entry);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Engine>> LoadTorchEngine(const ModelFile& model,
                                                        const std::string& path,
                                                        const std::string& device,
                                                        const EngineOptions& options,
                                                        const Kernels& kernels, ThreadPool& pool,
                                                        const LoadProgress& progress) {
  OUTRIDER_ASSIGN_OR_RETURN(TorchModuleEntry* const load, OpenModule());
  absl::StatusOr<std::unique_ptr<Engine>> engine = std::unique_ptr<Engine>();
  load(model, path, device, options, kernels, pool, progress, engine);
  return engine;
}

}  // namespace outrider
