// Measures the all-reduce of gloo over loopback TCP in the same way as
// allreduce_mpi.c measures MPI: f32 sums of 4 B to 64 MiB by factors of 4,
// streaming, median over samples of the slowest rank, every element checked
// before and after timing. It starts its own ranks and binds each to a core if
// there are enough cores.
//
// usage: allreduce_gloo RANKS ALGORITHM [SECONDS_PER_SIZE [MOST_BYTES]]
//   ring      gloo::allreduce, out of place
//   halving   AllreduceHalvingDoubling, in place, because its interface has no other way
//   busy      the same, polling instead of sleeping
// prints csv: size,inplace,time_us,samples,batch,wrong
#include <gloo/allreduce.h>
#include <gloo/allreduce_halving_doubling.h>
#include <gloo/barrier.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/rendezvous/prefix_store.h>
#include <gloo/transport/tcp/device.h>

#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace {

constexpr long kMaxSamples = 20000, kMinSamples = 15;
constexpr double kSampleSeconds = 5e-6;

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

float input(int rank, size_t i, unsigned round) {
  unsigned x = static_cast<unsigned>(i) * 2654435761u + rank * 40503u + round * 97u;
  x ^= x >> 15;
  x *= 2246822519u;
  return static_cast<float>(static_cast<int>(x >> 20)) - 2048.0f;
}

void sumFloats(void* out, const void* a, const void* b, size_t n) { gloo::sum<float>(out, a, b, n); }
void maxDoubles(void* out, const void* a, const void* b, size_t n) { gloo::max<double>(out, a, b, n); }
void sumDoubles(void* out, const void* a, const void* b, size_t n) { gloo::sum<double>(out, a, b, n); }

class Rank {
 public:
  Rank(int rank, int ranks, const std::string& folder, const std::string& algorithm, double seconds, size_t most)
      : rank_(rank), ranks_(ranks), algorithm_(algorithm), seconds_(seconds), most_(most) {
    gloo::transport::tcp::attr attr;
    attr.hostname = "127.0.0.1";
    attr.iface = "lo";
    device_ = gloo::transport::tcp::CreateDevice(attr);
    store_ = std::make_shared<gloo::rendezvous::FileStore>(folder);
    control_ = connect("control");
    data_ = connect("data");
    if (algorithm == "busy") {
      for (int i = 0; i < ranks; i++) {
        if (i != rank) data_->getPair(i)->setSync(true, true);
      }
    }
  }

  // measure prints a line per size and returns the number of wrong elements.
  long measure() {
    long ever = 0;
    if (rank_ == 0) std::printf("size,inplace,time_us,samples,batch,wrong\n");
    for (size_t n = 1; n * sizeof(float) <= most_; n *= 4) {
      ever += one(n);
    }
    barrier();
    return ever;
  }

 private:
  std::shared_ptr<gloo::rendezvous::Context> connect(const char* name) {
    auto prefix = std::make_shared<gloo::rendezvous::PrefixStore>(name, *store_);
    auto context = std::make_shared<gloo::rendezvous::Context>(rank_, ranks_);
    context->connectFullMesh(*prefix, device_);
    return context;
  }

  void barrier() {
    gloo::BarrierOptions options(control_);
    gloo::barrier(options);
  }

  void combine(std::vector<double>& values, void (*how)(void*, const void*, const void*, size_t)) {
    std::vector<double> all(values.size());
    gloo::AllreduceOptions options(control_);
    options.setInput(values.data(), values.size());
    options.setOutput(all.data(), all.size());
    options.setReduceFunction(how);
    gloo::allreduce(options);
    values.swap(all);
  }

  long one(size_t n) {
    std::vector<float> in(n), out(n);
    bool inPlace = algorithm_ != "ring";
    auto fill = [&](unsigned round) {
      auto& to = inPlace ? out : in;
      for (size_t i = 0; i < n; i++) to[i] = input(rank_, i, round);
    };
    auto wrong = [&](unsigned round) {
      long count = 0;
      for (size_t i = 0; i < n; i++) {
        float want = 0;
        for (int r = 0; r < ranks_; r++) want += input(r, i, round);
        count += out[i] != want;
      }
      return count;
    };
    std::unique_ptr<gloo::Algorithm> halving;
    if (inPlace) {
      halving.reset(new gloo::AllreduceHalvingDoubling<float>(data_, std::vector<float*>{out.data()}, n));
    }
    uint32_t tag = 0;
    std::function<void()> call = [&] {
      if (halving) return halving->run();
      gloo::AllreduceOptions options(data_);
      options.setInput(in.data(), n);
      options.setOutput(out.data(), n);
      options.setReduceFunction(sumFloats);
      options.setAlgorithm(gloo::AllreduceOptions::Algorithm::RING);
      options.setTag(tag++);
      gloo::allreduce(options);
    };

    fill(0);
    barrier();
    call();
    double bad = wrong(0);

    // Calls in place sum their own results again and again, so anything but zeros would overflow.
    if (inPlace) std::fill(out.begin(), out.end(), 0.0f);
    else fill(1);
    std::vector<double> per{0};
    for (long calls = 1, total = 0; total < 5 || (per[0] * total < 0.02 && total < 5000); calls *= 2) {
      barrier();
      double t = now();
      for (long i = 0; i < calls; i++) call();
      per[0] = (now() - t) / calls;
      combine(per, maxDoubles);
      total += calls;
    }
    long batch = per[0] < kSampleSeconds ? static_cast<long>(kSampleSeconds / per[0]) + 1 : 1;
    long samples = std::clamp(static_cast<long>(seconds_ / (per[0] * batch)), kMinSamples, kMaxSamples);
    std::vector<double> times(samples);
    barrier();
    for (auto& sample : times) {
      double t = now();
      for (long k = 0; k < batch; k++) call();
      sample = (now() - t) / batch;
    }
    if (inPlace) {
      fill(1);
      call();
    }
    bad += wrong(1);
    combine(times, maxDoubles);
    std::vector<double> total{bad};
    combine(total, sumDoubles);
    std::sort(times.begin(), times.end());
    double median = (times[(samples - 1) / 2] + times[samples / 2]) / 2;
    if (rank_ == 0) {
      std::printf("%zu,%s,%.4f,%ld,%ld,%.0f\n", n * sizeof(float), inPlace ? "true" : "false", median * 1e6, samples, batch, total[0]);
      std::fflush(stdout);
    }
    return static_cast<long>(total[0]);
  }

  int rank_, ranks_;
  std::string algorithm_;
  double seconds_;
  size_t most_;  // bytes
  std::shared_ptr<gloo::transport::Device> device_;
  std::shared_ptr<gloo::rendezvous::FileStore> store_;
  std::shared_ptr<gloo::rendezvous::Context> control_, data_;
};

// bind binds the rank to its own core, if there are enough cores.
void bind(int rank, int ranks) {
  cpu_set_t allowed, one;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0 || CPU_COUNT(&allowed) < ranks) return;
  for (int cpu = 0, seen = 0; cpu < CPU_SETSIZE; cpu++) {
    if (CPU_ISSET(cpu, &allowed) && seen++ == rank) {
      CPU_ZERO(&one);
      CPU_SET(cpu, &one);
      sched_setaffinity(0, sizeof one, &one);
      return;
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  int ranks = argc > 1 ? std::atoi(argv[1]) : 0;
  std::string algorithm = argc > 2 ? argv[2] : "";
  if (ranks < 1 || (algorithm != "ring" && algorithm != "halving" && algorithm != "busy")) {
    std::fprintf(stderr, "usage: allreduce_gloo RANKS ring|halving|busy [SECONDS_PER_SIZE [MOST_BYTES]]\n");
    return 2;
  }
  double seconds = argc > 3 ? std::atof(argv[3]) : 0.3;
  size_t most = argc > 4 ? std::atol(argv[4]) : size_t(64) << 20;
  char folder[] = "/tmp/allreduce_gloo.XXXXXX";
  if (mkdtemp(folder) == nullptr) {
    std::perror("making a folder for the ranks to meet in");
    return 1;
  }
  for (int rank = 0; rank < ranks; rank++) {
    if (fork() == 0) {
      int code = 1;
      try {
        bind(rank, ranks);
        code = Rank(rank, ranks, folder, algorithm, seconds, most).measure() != 0;
      } catch (const std::exception& e) {
        std::fprintf(stderr, "rank %d: %s\n", rank, e.what());
      }
      std::fflush(stdout);
      _exit(code);  // no destructors: ranks may leave at different times
    }
  }
  int bad = 0, status = 0;
  while (wait(&status) > 0) bad |= status != 0;
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
  return bad;
}
