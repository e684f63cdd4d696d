# cmake -DNAMESPACE=a::b -DNAME=identifier -DIN=file -DOUT=file.cc -P embed_file.cmake
# Writes a .cc that defines `extern const std::string_view NAME` in the namespace with the bytes of a file.
file(READ ${IN} hex HEX)
string(LENGTH "${hex}" digits)
math(EXPR bytes "${digits} / 2")
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," array "${hex}")
# Lines of bearable length, for compilers and editors.
string(REGEX REPLACE "(................................................................................)" "\\1\n" array "${array}")
file(WRITE ${OUT} "#include <string_view>
namespace ${NAMESPACE} {
static const unsigned char ${NAME}Bytes[] = {
${array}0};
extern const std::string_view ${NAME};
const std::string_view ${NAME}(reinterpret_cast<const char*>(${NAME}Bytes), ${bytes});
}  // namespace ${NAMESPACE}
")
