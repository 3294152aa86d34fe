// Reference for the published experiment: the class as a storage developer would write it in C++,
// with OpenSSL's MD5.
//
// plainmd5.md5 repeats the following steps; its input is the number of repetitions in decimal:
// stat, read the whole object, compute MD5, and store the digest in the attribute plain.md5 in
// lower-case hex.
#include <rados/objclass.h>

#include <openssl/evp.h>

#include <cerrno>
#include <cstdlib>
#include <string>

CLS_VER(1, 0)
CLS_NAME(plainmd5)

namespace {

constexpr unsigned long kRepeatMax = 100000;

int repeat_of(ceph::bufferlist* in, unsigned long* repeat) {
  const std::string text = in->to_str();
  char* end = nullptr;
  *repeat = std::strtoul(text.c_str(), &end, 10);
  return *end == '\0' && *repeat >= 1 && *repeat <= kRepeatMax ? 0 : -EINVAL;
}

int hash(cls_method_context_t context, std::string* hex) {
  uint64_t size = 0;
  if (int result = cls_cxx_stat(context, &size, nullptr); result < 0) return result;
  ceph::bufferlist data;
  if (int result = cls_cxx_read(context, 0, static_cast<int>(size), &data); result < 0) return result;
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int len = 0;
  // The data is one segment, as BlueStore returns it; c_str() would otherwise join segments.
  if (EVP_Digest(data.c_str(), data.length(), digest, &len, EVP_md5(), nullptr) != 1) return -EIO;
  static constexpr char digits[] = "0123456789abcdef";
  hex->clear();
  for (unsigned int i = 0; i < len; ++i) {
    hex->push_back(digits[digest[i] >> 4]);
    hex->push_back(digits[digest[i] & 15]);
  }
  return 0;
}

int md5(cls_method_context_t context, ceph::bufferlist* in, ceph::bufferlist*) {
  unsigned long repeat = 0;
  if (int result = repeat_of(in, &repeat); result < 0) return result;
  std::string hex;
  for (unsigned long i = 0; i < repeat; ++i) {
    if (int result = hash(context, &hex); result < 0) return result;
    ceph::bufferlist value;
    value.append(hex);
    if (int result = cls_cxx_setxattr(context, "plain.md5", &value); result < 0) return result;
  }
  return 0;
}

}  // namespace

CLS_INIT(plainmd5) {
  cls_handle_t handle;
  cls_method_handle_t method;
  cls_register("plainmd5", &handle);
  cls_register_cxx_method(handle, "md5", CLS_METHOD_RD | CLS_METHOD_WR, md5, &method);
}
