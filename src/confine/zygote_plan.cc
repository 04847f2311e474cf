// SPDX-License-Identifier: Apache-2.0
#include "confine/zygote_plan.h"

#include "confine/plan_codec.h"

namespace cloister::runtime {

std::string encodeZygotePlan(const ZygotePlan& plan, const Confinement& confinement,
                             const std::vector<MountStep>& root) {
  PlanWriter out;
  out.texts(plan.argv);
  out.texts(plan.env);
  out.list(plan.files, [&](const ZygotePlan::File& file) {
    out.text(file.name);
    out.text(file.content);
  });
  out.confinement(confinement, root);
  return out.take();
}

Result<ZygoteOrders> decodeZygotePlan(std::string_view bytes) {
  wire::Reader r(bytes);
  ZygoteOrders orders;
  orders.plan.argv = readTexts(r);
  orders.plan.env = readTexts(r);
  orders.plan.files = readList<ZygotePlan::File>(r, [&] {
    std::string name(r.bytes());
    return ZygotePlan::File{std::move(name), std::string(r.bytes())};
  });
  orders.confinement = readConfinement(r);
  if (!r.done()) return fail(Code::kInternal, "reading a zygote's plan: it is malformed");
  return orders;
}

Result<ZygoteOrders> readZygotePlan(int fd) {
  const std::string bytes = TRY(readPlan(fd));
  return decodeZygotePlan(bytes);
}

}  // namespace cloister::runtime
