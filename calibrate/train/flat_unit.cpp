#include "train/flat_unit.hpp"

#include "base/error.hpp"

namespace rehearse::inline calibrate {

FlatUnit::FlatUnit(std::string name, std::vector<torch::Tensor> parameters, ProcessGroup group,
                   GatherStream& gathers, StepRecorder& recorder)
    : name_(std::move(name)),
      parameters_(std::move(parameters)),
      group_(std::move(group)),
      gathers_(gathers),
      recorder_(recorder) {
  check(!parameters_.empty(), "a flat unit without parameters");
  const torch::NoGradGuard no_grad;
  for (const torch::Tensor& parameter : parameters_) {
    check(parameter.scalar_type() == parameters_[0].scalar_type() && parameter.requires_grad(),
          "the parameters of a flat unit are trained and of one type");
    elements_ += parameter.numel();
  }
  const std::int64_t ranks = group_->getSize();
  padded_ = (elements_ + ranks - 1) / ranks * ranks;
  whole_ = torch::zeros({padded_}, parameters_[0].options().requires_grad(false));
  std::int64_t offset = 0;
  for (torch::Tensor& parameter : parameters_) {
    const torch::Tensor view = whole_.narrow(0, offset, parameter.numel()).view(parameter.sizes());
    view.copy_(parameter);
    parameter.set_data(view);
    offset += parameter.numel();
  }
  const std::int64_t slice = padded_ / ranks;
  shard_ = whole_.narrow(0, group_->getRank() * slice, slice).clone().set_requires_grad(true);
  free_storage(whole_);
}

void FlatUnit::start_gather() {
  if (gathered_ || gather_) return;
  const torch::NoGradGuard no_grad;
  gathers_.allocate(whole_);
  gathers_.run([this] {
    gather_ = launch(CollectiveKind::all_gather,
                     [this] { return gather_parts(group_, whole_, shard_.detach()); });
  });
}

void FlatUnit::finish_gather() {
  start_gather();
  if (!gather_) return;
  wait_for(gather_);
  gathered_ = true;
}

void FlatUnit::reshard() {
  if (!gathered_ && !gather_) return;
  wait_for(gather_);
  gathers_.free(whole_);
  gathered_ = false;
}

torch::Tensor FlatUnit::take_gradients() {
  torch::Tensor flat = torch::empty({padded_}, shard_.options().requires_grad(false));
  std::int64_t offset = 0;
  for (torch::Tensor& parameter : parameters_) {
    const torch::Tensor place = flat.narrow(0, offset, parameter.numel());
    if (parameter.grad().defined()) {
      place.copy_(parameter.grad().reshape({-1}));
      parameter.mutable_grad() = torch::Tensor();
    } else {
      place.zero_();
    }
    offset += parameter.numel();
  }
  flat.narrow(0, elements_, padded_ - elements_).zero_();
  return flat;
}

void FlatUnit::start_reduce() {
  check(!reduction_, "a unit's gradients are reduced twice at a time");
  const torch::NoGradGuard no_grad;
  sent_gradients_ = take_gradients();
  reduction_ = launch(CollectiveKind::reduce_scatter, [this] { return launch_reduce(); });
}

FlatUnit::Pending FlatUnit::launch(CollectiveKind kind, const std::function<Work()>& collective) {
  const auto number = recorder_.launch(kind, name_, size());
  const Work work = collective();
  return {recorder_.watch(number, work->getFuture()), work};
}

Work FlatUnit::launch_reduce() {
  if (sent_gradients_.is_cuda()) {
    received_gradients_ = torch::empty({shard_.numel()}, sent_gradients_.options());
    return reduce_parts(group_, received_gradients_, sent_gradients_);
  }
  // Gloo's reduce_scatter is an all_reduce inside, of twice the bytes; this sends the true ones.
  received_gradients_ = torch::empty_like(sent_gradients_);
  return exchange_parts(group_, received_gradients_, sent_gradients_);
}

void FlatUnit::finish_reduce() {
  if (!reduction_) return;
  const torch::NoGradGuard no_grad;
  wait_for(reduction_);
  torch::Tensor mean = received_gradients_;
  if (!mean.is_cuda()) {
    mean = mean.view({group_->getSize(), -1}).sum(0);
    // Gloo's thread lets its work go some time after it is done, and with it the tensors.
    free_storage(sent_gradients_);
    free_storage(received_gradients_);
  }
  mean.div_(group_->getSize());
  if (shard_.grad().defined()) {
    shard_.mutable_grad().add_(mean);
  } else {
    shard_.mutable_grad() = mean;
  }
  sent_gradients_ = received_gradients_ = torch::Tensor();
}

void FlatUnit::wait_for(std::optional<Pending>& pending) {
  if (!pending) return;
  recorder_.time(StepRecorder::Phase::waiting, [&pending] {
    pending->done->waitAndThrow();
    pending->work->wait();
  });
  pending.reset();
}

std::vector<torch::Tensor> FlatUnit::gather_copies(const torch::Tensor& shard) {
  const torch::NoGradGuard no_grad;
  const torch::Tensor whole = torch::empty({padded_}, shard.options().requires_grad(false));
  gather_parts(group_, whole, shard.detach())->wait();
  std::vector<torch::Tensor> copies;
  std::int64_t offset = 0;
  for (const torch::Tensor& parameter : parameters_) {
    copies.push_back(whole.narrow(0, offset, parameter.numel()).view(parameter.sizes()).clone());
    offset += parameter.numel();
  }
  return copies;
}

}  // namespace rehearse::inline calibrate
