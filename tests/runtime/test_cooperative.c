/* Which shape of cooperative matrices is chosen from what a driver lists, and the scales that bring
 * weights into the range of halfs. */
#include <math.h>

#include <check.h>

#include "cooperative.h"

#define HALF VK_COMPONENT_TYPE_FLOAT16_KHR
#define FLOAT VK_COMPONENT_TYPE_FLOAT32_KHR

static VkCooperativeMatrixPropertiesKHR entry(uint32_t m, uint32_t n, uint32_t k)
{
    return (VkCooperativeMatrixPropertiesKHR){
        .sType = VK_STRUCTURE_TYPE_COOPERATIVE_MATRIX_PROPERTIES_KHR,
        .MSize = m,
        .NSize = n,
        .KSize = k,
        .AType = HALF,
        .BType = HALF,
        .CType = FLOAT,
        .ResultType = FLOAT,
        .scope = VK_SCOPE_SUBGROUP_KHR,
    };
}

static void check_choice(const VkCooperativeMatrixPropertiesKHR *list, uint32_t n, uint32_t m,
                         uint32_t columns, uint32_t k)
{
    cooperative_shape shape = cooperative_choose(list, n);

    ck_assert_uint_eq(shape.m, m);
    ck_assert_uint_eq(shape.n, columns);
    ck_assert_uint_eq(shape.k, k);
}

START_TEST(the_largest_usable_shape_is_chosen)
{
    const VkCooperativeMatrixPropertiesKHR list[] = {
        entry(8, 8, 8), entry(16, 8, 16), entry(16, 16, 16), entry(8, 16, 16), entry(16, 16, 16)};

    check_choice(list, 1, 8, 8, 8);
    check_choice(list, 2, 16, 8, 16);
    check_choice(list, 5, 16, 16, 16);
    check_choice(list + 3, 1, 8, 16, 16);
    check_choice(list, 0, 0, 0, 0);
}
END_TEST

/* Only shapes of halfs with sums of floats, in a subgroup, that divide the kernel's work. */
START_TEST(other_shapes_are_not)
{
    VkCooperativeMatrixPropertiesKHR list[] = {
        entry(16, 16, 16), entry(16, 16, 16), entry(16, 16, 16), entry(16, 16, 16),
        entry(16, 16, 16), entry(16, 16, 16), entry(32, 32, 16), entry(16, 64, 16),
        entry(12, 16, 16), entry(16, 16, 24), entry(16, 16, 2),  entry(1, 16, 16),
    };

    list[0].CType = list[0].ResultType = HALF;
    list[1].AType = FLOAT;
    list[2].BType = FLOAT;
    list[3].scope = (VkScopeKHR)2; /* a workgroup */
    list[4].saturatingAccumulation = VK_TRUE;
    list[5].ResultType = HALF;
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++)
        check_choice(&list[i], 1, 0, 0, 0);
}
END_TEST

START_TEST(scales_are_powers_of_two_that_halfs_can_hold)
{
    for (int e = -100; e <= 125; e++)
        for (double mantissa = 1; mantissa < 2; mantissa += 0.25) {
            double largest = ldexp(mantissa, e),
                   scaled = largest * (double)cooperative_scale(largest);
            int exponent;

            ck_assert_double_eq(frexp((double)cooperative_scale(largest), &exponent), 0.5);
            ck_assert_double_ge(scaled, 0x1p14);
            ck_assert_double_lt(scaled, 0x1p15);
        }
    /* The kernel multiplies by the inverse, too: both are normal numbers. */
    ck_assert_double_eq((double)cooperative_scale(1e-300), 0x1p126);
    ck_assert_double_eq((double)cooperative_scale(1e300), 0x1p-126);
    ck_assert_double_eq((double)cooperative_scale(0), 1);
    ck_assert_double_eq((double)cooperative_scale(INFINITY), 1);
    ck_assert_double_eq((double)cooperative_scale((double)NAN), 1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("cooperative");
    TCase *tests = tcase_create("cooperative");
    tcase_add_test(tests, the_largest_usable_shape_is_chosen);
    tcase_add_test(tests, other_shapes_are_not);
    tcase_add_test(tests, scales_are_powers_of_two_that_halfs_can_hold);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
