#include "model/captured/product_work.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

namespace rehearse::captured {
namespace {

/// Under a weight's gradient the inner dimension is the batch's rows, and the result has none. Of a
/// capture at one batch nothing varies: there autograd transposes the first operand.
Product::Role role_of(const Kernel& kernel, const Tensor& first) {
  if (!kernel.backward) return Product::Role::forward;
  if (kernel.role)
    return *kernel.role == KernelRole::weight_gradient ? Product::Role::weight_gradient
                                                       : Product::Role::input_gradient;
  const bool varies = first.shape.back().each != 0 || kernel.writes[0].shape[0].each != 0;
  const bool weight = varies ? first.shape.back().each != 0 : first.strided;
  return weight ? Product::Role::weight_gradient : Product::Role::input_gradient;
}

/// mm, addmm, bmm, baddbmm: the last two tensors of at least two dimensions.
std::optional<Product> product_of(const Kernel& kernel, double batch) {
  if (kernel.reads.size() < 2 || kernel.writes.empty()) return std::nullopt;
  const Tensor& a = kernel.reads[kernel.reads.size() - 2];
  const std::size_t sides = a.shape.size();
  if (sides < 2 || kernel.writes[0].shape.size() != sides) return std::nullopt;
  Product product;
  product.rows = side(kernel.writes[0], sides - 2, batch);
  product.columns = side(kernel.writes[0], sides - 1, batch);
  product.inner = side(a, sides - 1, batch);
  if (sides == 3) product.products = side(kernel.writes[0], 0, batch);
  product.role = role_of(kernel, a);
  if (sides == 3 && (kernel.role || kernel.writes[0].shape[0].each != 0))
    product.role = Product::Role::forward;
  product.wide = a.is_wide();
  return product;
}

}  // namespace

Work products(const Kernel& kernel, double batch) {
  Work work{.kind = OperatorKind::matmul};
  if (const auto product = product_of(kernel, batch)) work.products = {*product};
  for (const Product& one : work.products) work.flops += one.flops();
  work.known = !work.products.empty();
  return work;
}

Work narrow_product(const Kernel& kernel, double batch) {
  const Tensor& out = kernel.writes[0];
  Product product{.narrow = true};
  product.columns = side(out, out.shape.size() - 1, batch);
  product.rows = out.elements(batch) / product.columns;
  product.inner = kernel.option("inner", 0, 0);
  if (kernel.backward)
    product.role = kernel.role == KernelRole::weight_gradient ? Product::Role::weight_gradient
                                                              : Product::Role::input_gradient;
  return {.kind = OperatorKind::matmul, .products = {product}, .flops = product.flops()};
}

Work grouped(const Kernel& kernel, double batch) {
  const Tensor &a = kernel.reads[0], &b = kernel.reads[1], &out = kernel.writes[0];
  Product product{.wide = a.is_wide()};
  if (b.shape.size() == 3) {
    product.products = side(b, 0, batch);
    product.rows = side(a, 0, batch) / product.products;
    product.inner = side(a, 1, batch);
    product.columns = side(out, 1, batch);
    product.role = kernel.backward ? Product::Role::input_gradient : Product::Role::forward;
  } else {
    product.products = side(out, 0, batch);
    product.rows = side(out, 1, batch);
    product.columns = side(out, 2, batch);
    product.inner = side(a, 1, batch) / product.products;
    product.role = Product::Role::weight_gradient;
  }
  return {.kind = OperatorKind::matmul, .products = {product}, .flops = product.flops()};
}

}  // namespace rehearse::captured
